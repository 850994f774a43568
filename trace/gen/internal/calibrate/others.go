package main

import (
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"time"

	"github.com/norn-scheduler/norn/trace/gen/internal/logs"
)

// day is midnight of a day on the clock of logs.Job.Submit.
func day(year int, month time.Month, d int) float64 {
	return time.Date(year, month, d, 0, 0, 0, 0, time.UTC).Sub(time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC)).Seconds()
}

// venusTables counts Venus, which had 1,080 GPUs at the end of the log. Users,
// sessions, ends and CPUs are told for 10,795 jobs; the shares of ends are
// then scaled to those published for all jobs (Helios, SC 21: 52.6 % complete,
// 27.2 % cancelled, 20.2 % failed). The tenants are the virtual clusters of
// September, with their nodes as shares.
func venusTables(w *source, data string) error {
	jobs, err := logs.Venus(data)
	if err != nil {
		return err
	}
	groups := []span{{1, 1}, {2, 2}, {3, 4}, {5, 8}, {9, 16}, {17, 32}, {33, 1 << 20}}
	pools := []span{{1, 1}, {2, 4}, {5, 8}, {9, 1 << 20}} // groups that share their ends
	poolOf := []int{0, 1, 1, 2, 3, 3, 3}
	named := filter(jobs, func(j *logs.Job) bool { return j.User != "" })
	from, to := day(2020, 4, 1), day(2020, 9, 28)
	busy := filter(jobs, func(j *logs.Job) bool { return j.Submit >= from && j.Submit < to })

	w.head(quantPath)
	w.line("var venus = profile{\nname: \"venus\", gpus: 1080, perDay: %s,", figure(float64(len(busy))/(to-from)*86400))
	w.clock(busy, 24, 7)
	w.sizes(jobs, groups)
	ends := rake(named, jobs, pools, [3]float64{.526, .202, .272})
	w.line("groups: []group{")
	for g, s := range groups {
		group := filter(jobs, func(j *logs.Job) bool { return s.has(j.GPUs) })
		w.line("{cells: []cell{ // %d to %d GPUs", s.least, min(s.most, 200))
		w.cell(group, len(group), ends[poolOf[g]], nil)
		w.line("},")
		w.cpus(filter(named, func(j *logs.Job) bool { return s.has(j.GPUs) }))
		w.line("},")
	}
	w.line("},")
	w.sessions(logs.RowsOf(named, 600, owner, oneClass))
	w.users(activity(named))
	if err := w.nodeShares(filepath.Join(data, "helios/venus_vc_config_lucid.csv")); err != nil {
		return err
	}
	w.line("recurs: 0.8, // assumed: no names are published\n}")
	return nil
}

// rake counts the ends of jobs by span of sizes and by equal parts of the run
// times, and scales them until the ends of all jobs have the wanted shares.
func rake(told, all []logs.Job, spans []span, want [3]float64) [][][3]float64 {
	ends := make([][][3]float64, len(spans))
	weight := make([]float64, len(spans))
	for s, span := range spans {
		weight[s] = float64(len(filter(all, func(j *logs.Job) bool { return span.has(j.GPUs) }))) / float64(len(all))
		some := filter(told, func(j *logs.Job) bool { return span.has(j.GPUs) })
		sort.SliceStable(some, func(i, k int) bool { return some[i].Run < some[k].Run })
		ends[s] = make([][3]float64, bins)
		for i, j := range some {
			ends[s][i*bins/len(some)][map[logs.Outcome]int{logs.Passed: 0, logs.Failed: 1, logs.Killed: 2}[j.Outcome]]++
		}
	}
	for range 100 {
		var have [3]float64
		for s := range ends {
			for b := range ends[s] {
				e := &ends[s][b]
				sum := e[0] + e[1] + e[2]
				for o := range e {
					e[o] /= sum
					have[o] += e[o] / bins * weight[s]
				}
			}
		}
		for s := range ends {
			for b := range ends[s] {
				for o := range want {
					ends[s][b][o] *= want[o] / have[o]
				}
			}
		}
	}
	return ends
}

// cpus writes the most usual numbers of CPUs for each GPU, down to one job in
// fifty.
func (w *source) cpus(jobs []logs.Job) {
	count := map[int]int{}
	for i := range jobs {
		count[jobs[i].CPUs*1000/jobs[i].GPUs]++
	}
	var values []int
	sum := 0
	for v, n := range count {
		if n*50 >= len(jobs) {
			values = append(values, v)
			sum += n
		}
	}
	sort.Ints(values)
	w.line("cpus: []cpus{")
	for _, v := range values {
		w.line("{%d, %s},", v, figure(float64(count[v])/float64(sum)))
	}
	w.line("},")
}

// nodeShares writes the tenants of a file of name and number of nodes, largest
// first.
func (w *source) nodeShares(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	lines, err := csv.NewReader(file).ReadAll()
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	var all []vc
	sum := 0
	for _, l := range lines[1:] {
		n, err := strconv.Atoi(l[1])
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		all = append(all, vc{l[0], n})
		sum += n
	}
	sort.SliceStable(all, func(i, k int) bool { return all[i].nodes > all[k].nodes })
	w.line("tenants: []share{")
	for _, v := range all {
		w.line("{%q, %s},", v.name, figure(float64(v.nodes)/float64(sum)))
	}
	w.line("},")
	return nil
}

// vc is a virtual cluster.
type vc struct {
	name  string
	nodes int
}

// itpTables counts the ten ITP clusters together. Their sizes are not
// published: 1,620 GPUs are assumed, of which the log keeps 70 % busy. Users
// are not told; sessions are rows within one cluster at most a minute apart.
func itpTables(w *source, data string) error {
	jobs, err := logs.ITP(data)
	if err != nil {
		return err
	}
	groups := []span{{1, 1}, {2, 2}, {3, 4}, {5, 8}, {9, 16}, {17, 32}, {33, 1 << 20}}
	days := (jobs[len(jobs)-1].Submit - jobs[0].Submit) / 86400
	w.head(quantPath)
	w.line("var itp = profile{\nname: \"itp\", gpus: 1620, perDay: %s,", figure(float64(len(jobs))/days))
	w.clock(jobs, 24, 7)
	w.sizes(jobs, groups)
	w.plainGroups(jobs, groups)
	w.sessions(logs.RowsOf(jobs, 60, func(j *logs.Job) string { return j.Tenant }, oneClass))
	w.users([]int{1, 2, 3, 5, 10, 20, 50, 100, 200}, []float64{.09, .17, .23, .34, .53, .73, .9, .97, 1}) // assumed: much as in Venus
	w.tenants(jobs)
	w.line("recurs: 0.8, // assumed: no names are published\n}")
	return nil
}

// plainGroups writes groups about whose ends nothing is told: all pass.
func (w *source) plainGroups(jobs []logs.Job, groups []span) {
	w.line("groups: []group{")
	for _, s := range groups {
		group := filter(jobs, func(j *logs.Job) bool { return s.has(j.GPUs) })
		if len(group) > 0 {
			w.line("{cells: []cell{ // %d GPUs and more", s.least)
			w.cell(group, len(group), nil, nil)
			w.line("}},")
		}
	}
	w.line("},")
}

// paiTables counts the PAI sample. It holds 16.4 % x 50 % of the tasks that
// ended well: the rate is scaled up by that. The machine list has 6,742 GPUs.
// Published facts: there are about 1,300 users, 5 % of whom own 77 % of the
// instances, and names recur for at least 65 % of the tasks (Weng et al., NSDI
// 22). The mean request is 0.68 GPU and the median 0.5
// (acme/cluster_summary.csv). Requests of 25 %, 50 % and 100 % that agree with
// both leave one degree of freedom; a fifth of 25 % is assumed. CPU and memory
// are the medians of the openb pods (FGD, ATC 23) that ask for as much.
func paiTables(w *source, data string) error {
	jobs, err := logs.PAI(data)
	if err != nil {
		return err
	}
	groups := []span{{1, 1}, {2, 2}, {3, 4}, {5, 8}, {9, 16}, {17, 32}, {33, 64}, {65, 100}, {101, 1 << 20}}
	days := (jobs[len(jobs)-1].Submit - jobs[0].Submit) / 86400
	w.head(quantPath)
	w.line("var pai = profile{\nname: \"pai\", gpus: 6742, perDay: %s,", figure(float64(len(jobs))/days/.164/.5))
	w.clock(jobs, 24, 7)
	w.sizes(jobs, groups)
	w.plainGroups(jobs, groups)
	if err := w.fractions(filepath.Join(data, "alibaba_openb2023/openb_pod_list_default.csv.gz")); err != nil {
		return err
	}
	w.line("sessions: sessions{length: 4, correlation: 0.8, gaps: [9]float64{0, 1, 2, 4, 8, 15, 40, 120, 600}}, // assumed: a sample breaks rows up")
	w.users([]int{1, 5, 13, 65, 200, 500, 1300}, []float64{.1, .3, .5, .77, .93, .985, 1}) // 65 of 1,300 is published, the others are assumed
	w.line("recurs: 0.8, // so that 65 %% of the tasks recur at least five times\nkeyed: true,\n}")
	return nil
}

// polluxTables counts the configurations in the workloads of Pollux, which last
// for eight hours on 64 GPUs. Neither users nor tenants are told.
func polluxTables(w *source, data string) error {
	jobs, err := logs.Pollux(data)
	if err != nil {
		return err
	}
	type config struct {
		model       string
		gpus, batch int
		run         float64
	}
	count := map[config]int{}
	for _, j := range jobs {
		count[config{j.Model, j.GPUs, j.Batch, j.Run}]++
	}
	var configs []config
	for c := range count {
		configs = append(configs, c)
	}
	sort.Slice(configs, func(i, k int) bool {
		a, b := configs[i], configs[k]
		return a.model < b.model || a.model == b.model && (a.gpus < b.gpus || a.gpus == b.gpus && a.batch < b.batch)
	})
	w.head(quantPath)
	w.line("var pollux = profile{\nname: \"pollux\", gpus: 64, perDay: 480,")
	w.clock(jobs, 8, 1)
	w.line("sizes: []size{")
	for i, c := range configs {
		w.line("{gpus: %d, share: %s, group: %d, model: %q, batch: %d},", c.gpus, figure(float64(count[c])/float64(len(jobs))), i, c.model, c.batch)
	}
	w.line("},\ngroups: []group{")
	for _, c := range configs {
		same := filter(jobs, func(j *logs.Job) bool { return config{j.Model, j.GPUs, j.Batch, j.Run} == c })
		w.line("{cells: []cell{")
		w.cell(same, len(same), nil, nil)
		w.line("}},")
	}
	w.line("},")
	w.line("sessions: sessions{length: 1, correlation: 0.8},")
	w.users([]int{1, 2, 5, 10}, []float64{.2, .36, .7, 1}) // assumed
	w.line("recurs: 1,\n}")
	return nil
}

// estimateTables counts by how much the wall time that users of ThetaGPU asked
// for exceeds the run time, for jobs of a minute or more that ended before it.
func estimateTables(w *source, data string) error {
	ran, asked, err := logs.ThetaGPU(data)
	if err != nil {
		return err
	}
	var over []float64
	for i := range ran {
		if ran[i] >= 60 && ran[i] < asked[i] {
			over = append(over, asked[i]/ran[i])
		}
	}
	w.head()
	w.line("// overestimates are quantiles (sixteenths) of wall time asked for over run time.")
	w.line("var overestimates = [17]float64{%s}", figures(quantiles(over, 17)))
	return nil
}
