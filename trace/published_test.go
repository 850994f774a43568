package trace_test

import (
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/internal/longtest"
	"github.com/norn-scheduler/norn/internal/shared"
	"github.com/norn-scheduler/norn/trace"
)

// formatOf says which format each published file is in, the first pattern that
// fits counting; a file that none fits is no trace.
var formatOf = []struct{ pattern, format string }{
	{"data/acme/converted_kalos_trace.csv", "kalos"},
	{"data/alibaba_dlrm2025/*", "alibaba-dlrm"},
	{"data/alibaba_genai2026/lora_request_trace.csv.gz", "alibaba-genai"},
	{"data/alibaba_openb2023/openb_pod_list_*", "openb"},
	{"data/alibaba_pai2020/pai_terminated_tasks_sample60k.csv.gz", "pai-2020"},
	{"data/arena/*trace*.csv*", "arena"},
	{"data/chronus/trace_*", "chronus"},
	{"data/elasticflow/traces/*", "elasticflow"},
	{"data/gavel/traces/msr_seed0/*", "gavel-msr"},
	{"data/gavel/traces/physical_cluster/*", "gavel"},
	{"data/helios/venus_15000_jobs_status_user.csv.gz", "gen-parallel"},
	{"data/helios/venus_gpu_jobs.csv.gz", "helios"},
	{"data/helios/venus_gpu_jobs_clamped48h_original.csv.gz", "helios-clamped"},
	{"data/microsoft_itp/*/*", "itp"},
	{"data/muri/testbed/trace-data/*", "muri"},
	{"data/muri/trace-data/*", "muri"},
	{"data/ones/trace_*", "ones"},
	{"data/pal/traces/philly_*", "pal"},
	{"data/pal/traces/shockwave_poisson_shockwave_*", "pal"},
	{"data/pal/traces/*", "pal-iterations"},
	{"data/philly/first15000_attempts_status_user.csv.gz", "gen-parallel"},
	{"data/philly/lumos_attempts.csv.gz", "philly-attempts"},
	{"data/philly/pcs/*", "philly-pcs"},
	{"data/philly/philly_jobs_reconstructed.csv.gz", "philly"},
	{"data/philly/sia_philly_passed_jobs.csv.gz", "philly-passed"},
	{"data/pollux_sia/workloads_*/*/workload-*.csv", "pollux"},
	{"data/pollux_sia/workloads_sia/scale/*/workload-*.csv", "pollux"},
	{"data/rubick/workload-*", "rubick"},
	{"data/rubick/naive.csv", "rubick"},
	{"data/shockwave/traces/*", "shockwave"},
	{"data/synergy/dynamic/srtf.log", "synergy"},
	{"data/synergy/static_100job*", "synergy"},
	{"data/synergy/test_trace", "synergy"},
	{"data/thetagpu/*", "thetagpu"},
	{"data/tiresias/60_job.csv", "tiresias"},
	{"golden/inputs/alloxsim_jobs*", "allox"},
	{"golden/inputs/gavel_*", "gavel"},
	{"golden/inputs/lucid_*", "helios-log"},
	{"golden/inputs/mapa_*", "mapa"},
	{"golden/inputs/muri_*", "muri"},
	{"golden/inputs/pai_*", "pai"},
	{"golden/inputs/shockwave_*", "shockwave"},
	{"golden/inputs/sia_*", "pollux"},
	{"golden/inputs/synergy_*", "synergy"},
	{"golden/inputs/tiresias_*", "tiresias"},
}

func expectedFormat(path string) string {
	for _, f := range formatOf {
		if ok, _ := filepath.Match(f.pattern, path); ok {
			return f.format
		}
	}
	return ""
}

// manifestRows is how many rows each file of published data has, where the
// manifest tells.
func manifestRows(t *testing.T) map[string]int {
	t.Helper()
	rows := map[string]int{}
	for _, r := range shared.Rows(t, "data/MANIFEST.csv")[1:] {
		if n, err := strconv.Atoi(r[2]); err == nil {
			rows["data/"+r[0]] = n
		}
	}
	return rows
}

// TestEveryPublishedFile opens every file at hand without naming its format: a
// trace is told for what it is and all its rows are accounted for, and nothing
// else is taken for a trace.
func TestEveryPublishedFile(t *testing.T) {
	longtest.Skip(t)
	root := shared.Path(t, "")
	rows := manifestRows(t)
	traces, counted := 0, 0
	for _, folder := range []string{"data", "golden"} {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			name, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			name = filepath.ToSlash(name)
			want := expectedFormat(name)
			if folder == "golden" && !strings.HasPrefix(name, "golden/inputs/") && want != "" {
				t.Errorf("%s: the test expects a result to be a trace", name)
			}
			info, ok := checkPublished(t, path, name, want)
			if !ok {
				return nil
			}
			traces++
			if n, told := rows[name]; told {
				counted++
				if info.Rows != n {
					t.Errorf("%s: %d rows read, the manifest tells %d", name, info.Rows, n)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if traces != 292 || counted != 265 {
		t.Errorf("%d traces, %d of them with a known number of rows; want 292 and 265", traces, counted)
	}
}

// checkPublished reads one file, unless it is no trace.
func checkPublished(t *testing.T, path, name, want string) (trace.Info, bool) {
	t.Helper()
	r, err := trace.Open(path, trace.Options{})
	if err != nil {
		if want != "" || strings.Contains(err.Error(), "name the one it is") {
			t.Errorf("%s: %v", name, err)
		}
		return trace.Info{}, false
	}
	entries, info := drain(t, r)
	if info.Format != want {
		t.Errorf("%s: taken for format %q, is %q", name, info.Format, want)
		return info, false
	}
	if got := info.Jobs + info.Folded + info.LeftOut + info.Bad + info.Filtered; got != info.Rows || info.Jobs != len(entries) {
		t.Errorf("%s: %d rows, %d accounted for", name, info.Rows, got)
	}
	var before time.Duration
	for i := range entries {
		e := &entries[i]
		if int(e.Job.ID) != i || e.Job.Key == "" || e.Job.Submit < before {
			t.Errorf("%s: job %d is %s, number %d, submitted at %v after %v", name, i, e.Job.Key, e.Job.ID, e.Job.Submit, before)
			break
		}
		before = e.Job.Submit
	}
	return info, true
}

// TestLeftOut checks that rows are left out of published traces only where the
// documentation says so.
func TestLeftOut(t *testing.T) {
	for name, want := range map[string]int{
		"chronus/trace_job_Philly_SLO.csv.gz": 205, "chronus/trace_job_Philly_MIX1.csv.gz": 184,
		"chronus/trace_job_Philly_MIX2.csv.gz": 194, "philly/philly_jobs_reconstructed.csv.gz": 0,
	} {
		_, info := readAll(t, data(t, name), trace.Options{})
		if info.LeftOut != want || info.Bad != 0 {
			t.Errorf("%s: %d left out, want %d", name, info.LeftOut, want)
		}
		if want > 0 && (len(info.Problems) != 20 || !strings.Contains(info.Problems[0].Error(), "no GPU")) {
			t.Errorf("%s: %d problems listed, the first %v", name, len(info.Problems), info.Problems[0])
		}
	}
}

// TestPCSDurations turns the service times of PCS back: almost every job has
// the run time, in whole seconds, of a job that the reconstructed log has at
// the same moment and of the same size.
func TestPCSDurations(t *testing.T) {
	type at struct {
		submit time.Duration
		gpus   unit.Milli
	}
	all, _ := readAll(t, data(t, "philly/philly_jobs_reconstructed.csv.gz"), trace.Options{Merge: true})
	logs := map[string]map[at][]time.Duration{}
	first := map[string]time.Duration{}
	for i := range all {
		j := &all[i].Job
		if logs[j.Tenant] == nil {
			logs[j.Tenant] = map[at][]time.Duration{}
			first[j.Tenant] = j.Submit
		}
		key := at{j.Submit - first[j.Tenant], j.Demand.Milli(j.Demand.Roles[0].Tasks)}
		logs[j.Tenant][key] = append(logs[j.Tenant][key], all[i].Truth.Work)
	}
	jobs, whole, equal := 0, 0, 0
	for _, vc := range []string{"0e4a51", "103959", "2869ce", "51b7ef", "7f04ca", "e13805", "ed69ec", "ee9e8c.csv.gz"} {
		name, _, _ := strings.Cut(vc, ".")
		if name == vc {
			vc += ".csv"
		}
		entries, _ := readAll(t, data(t, "philly/pcs/trace_"+vc), trace.Options{})
		for i := range entries {
			e := &entries[i]
			jobs++
			if e.Truth.Work%time.Second == 0 {
				whole++
			}
			found := func(submit time.Duration) bool {
				for _, work := range logs[name][at{submit, e.Job.Demand.Milli(e.Job.Demand.Roles[0].Tasks)}] {
					if d := work - e.Truth.Work; d >= -2*time.Second && d <= 2*time.Second {
						return true
					}
				}
				return false
			}
			// The clocks went back on 2017-11-05, which moves the later jobs of the
			// reconstructed log by an hour against those of PCS.
			if found(e.Job.Submit) || found(e.Job.Submit-time.Hour) {
				equal++
			}
		}
	}
	if whole != jobs || equal < jobs*97/100 {
		t.Errorf("%d jobs: %d whole seconds, %d as in the reconstructed log", jobs, whole, equal)
	}
}

// TestNewYork checks that the attempts of lumos are put back on the clock of
// the trace: every job that passed is among them at its time and size.
func TestNewYork(t *testing.T) {
	type at struct {
		when time.Time
		gpus int
	}
	attempts, info := readAll(t, data(t, "philly/lumos_attempts.csv.gz"), trace.Options{})
	known := map[at]bool{}
	for i := range attempts {
		j := &attempts[i].Job
		known[at{info.Origin.Add(j.Submit), j.Demand.GPUs()}] = true
	}
	passed, info := readAll(t, data(t, "philly/sia_philly_passed_jobs.csv.gz"), trace.Options{})
	missing := 0
	for i := range passed {
		j := &passed[i].Job
		if !known[at{info.Origin.Add(j.Submit), j.Demand.GPUs()}] {
			missing++
		}
	}
	if len(passed) != 82247 || missing != 0 {
		t.Errorf("%d of %d jobs that passed are not among the attempts", missing, len(passed))
	}
}

// TestPhillyOutcomes checks what the columns passed and status make of a job.
func TestPhillyOutcomes(t *testing.T) {
	entries, _ := readAll(t, data(t, "philly/philly_jobs_reconstructed.csv.gz"), trace.Options{})
	count := map[trace.Outcome]int{}
	tenants := map[string]int{}
	again := 0
	for i := range entries {
		count[entries[i].Truth.Outcome]++
		tenants[entries[i].Job.Tenant]++
		if len(entries[i].Truth.Attempts) > 0 {
			again++
		}
	}
	if count[trace.Passed] != 82245 || count[trace.Killed] != 1426 || count[trace.Failed] != 111813-82245-1426 {
		t.Errorf("outcomes %v", count)
	}
	if tenants["6214e9"] != 51258 || tenants["51b7ef"] != 63 || tenants[""] != 2280 {
		t.Errorf("tenants %v", tenants)
	}
	if share := float64(again) / float64(len(entries)); share < 0.1365 || share > 0.1375 {
		t.Errorf("%.4f of the jobs have several attempts, want 0.137", share)
	}
}

// TestHeliosPredictions checks that the predictions of September are there.
func TestHeliosPredictions(t *testing.T) {
	entries, info := readAll(t, data(t, "helios/venus_gpu_jobs.csv.gz"), trace.Options{})
	hinted, ranked, cut := 0, 0, 0
	for i := range entries {
		e := &entries[i]
		if e.Truth.AtLeast {
			cut++
		}
		if h := e.Job.Hints; h != nil {
			hinted++
			if h.HasRank {
				ranked++
			}
		}
	}
	if hinted != 23873 || ranked != 23859 || cut != 2191 {
		t.Errorf("%d with predictions, %d with a rank, %d cut off", hinted, ranked, cut)
	}
	if want := time.Date(2020, 3, 18, 4, 1, 39, 0, time.UTC); !info.Origin.Equal(want) {
		t.Errorf("begins at %v, want %v", info.Origin, want)
	}
}
