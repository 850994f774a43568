// Package logs reads the published job logs that the generators of package gen
// are calibrated on and held against.
//
// Nouns: a Job is one line of a log in the terms that all five have in common.
//
// Units: seconds; GPUs in whole devices as the log counts them.
//
// Sources:
//   - Microsoft Philly (Jeon et al., ATC 19; job level rebuilt from three
//     published extracts);
//   - SenseTime Helios Venus (Hu et al., SC 21);
//   - Microsoft ITP (Gu et al., ElasticFlow, ASPLOS 23);
//   - Alibaba PAI 2020 (Weng et al., NSDI 22);
//   - the workloads of Pollux (Qiao et al., OSDI 21);
//   - ThetaGPU (Argonne) for the run times that users asked for.
package logs

import (
	"bufio"
	"compress/gzip"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"time"
)

// Outcome is what a log says about the end of a job.
type Outcome uint8

// The outcomes. NotPassed is failed or killed, not told which.
const (
	Unknown Outcome = iota
	Passed
	Failed
	Killed
	NotPassed
)

// Job is one line of a log. Values that a log does not have are zero.
type Job struct {
	Submit   float64 // local wall time, seconds since Monday 2001-01-01
	GPUs     int
	Run      float64 // over all attempts
	Attempts []float64
	Outcome  Outcome
	User     string
	Tenant   string
	CPUs     int
	Model    string
	Batch    int
}

// monday is the origin of Job.Submit.
var monday = time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC)

// Philly reads philly/philly_jobs_reconstructed.csv.gz. Jobs of which only the
// total run time is known count as one attempt.
func Philly(data string) ([]Job, error) {
	return read(filepath.Join(data, "philly/philly_jobs_reconstructed.csv.gz"), func(r row) (Job, error) {
		j := Job{Tenant: r.text("vc"), User: r.text("user"), GPUs: r.int("num_gpus"), Run: r.float("run_s"), Submit: r.time("submit_time")}
		for part := range strings.SplitSeq(r.text("attempt_run_s"), "|") {
			if part != "" {
				j.Attempts = append(j.Attempts, r.number(part))
			}
		}
		switch {
		case r.text("passed") == "1":
			j.Outcome = Passed
		case r.text("status") == "Failed":
			j.Outcome = Failed
		case r.text("status") == "Killed":
			j.Outcome = Killed
		default:
			j.Outcome = NotPassed
		}
		return j, r.err()
	})
}

// Venus reads helios/venus_gpu_jobs.csv.gz. Run times of 48 hours are lower
// bounds where the log was capped.
func Venus(data string) ([]Job, error) {
	outcomes := map[string]Outcome{"": Unknown, "Pass": Passed, "Failed": Failed, "Killed": Killed}
	return read(filepath.Join(data, "helios/venus_gpu_jobs.csv.gz"), func(r row) (Job, error) {
		j := Job{User: r.text("user"), GPUs: r.int("num_gpus"), Run: r.float("duration_s"), Submit: r.time("submit_time")}
		if cpus := r.text("cpu_num"); cpus != "" {
			j.CPUs = int(r.number(cpus))
		}
		j.Outcome = outcomes[r.text("status")]
		return j, r.err()
	})
}

// ITP reads the ten files in microsoft_itp/raw. The tenant is the cluster. The
// collection started on 2021-03-04; the hour is not published and taken to be
// midnight.
func ITP(data string) ([]Job, error) {
	start := time.Date(2021, 3, 4, 0, 0, 0, 0, time.UTC).Sub(monday).Seconds()
	var all []Job
	for c := 1; c <= 10; c++ {
		name := fmt.Sprintf("cluster%02d", c)
		jobs, err := read(filepath.Join(data, "microsoft_itp/raw", name+".csv.gz"), func(r row) (Job, error) {
			return Job{Tenant: name, GPUs: r.int("num_gpu"), Run: r.float("duration"), Submit: start + r.float("submission_time")}, r.err()
		})
		if err != nil {
			return nil, err
		}
		all = append(all, jobs...)
	}
	sort.SliceStable(all, func(i, k int) bool { return all[i].Submit < all[k].Submit })
	return all, nil
}

// PAI reads alibaba_pai2020/pai_terminated_tasks_sample60k.csv.gz, whose GPUs
// are fractions rounded up. The day of the week of its origin is not published;
// it is taken to be a Monday.
func PAI(data string) ([]Job, error) {
	return read(filepath.Join(data, "alibaba_pai2020/pai_terminated_tasks_sample60k.csv.gz"), func(r row) (Job, error) {
		return Job{GPUs: r.int("gpu_count"), Run: r.float("service_sec"), Submit: r.float("arrival_s"), Outcome: Passed}, r.err()
	})
}

// ThetaGPU reads the run times and the wall times asked for, in seconds.
func ThetaGPU(data string) (runs, asked []float64, err error) {
	files, err := filepath.Glob(filepath.Join(data, "thetagpu", "*.csv.gz"))
	if err != nil || len(files) == 0 {
		return nil, nil, fmt.Errorf("%s: no ThetaGPU log", data)
	}
	err = each(files[0], func(r row) error {
		run, wall := r.float("run_time"), r.float("wall_time")
		if run > 0 && wall > 0 {
			runs, asked = append(runs, run), append(asked, wall)
		}
		return r.err()
	})
	return runs, asked, err
}

// row is one line of a csv file with a header.
type row struct {
	column map[string]int
	fields []string
	bad    *error
}

func (r row) text(name string) string {
	i, ok := r.column[name]
	if !ok {
		r.fail(fmt.Errorf("no column %q", name))
		return ""
	}
	return r.fields[i]
}

func (r row) fail(err error) {
	if *r.bad == nil {
		*r.bad = err
	}
}

func (r row) err() error { return *r.bad }

func (r row) number(s string) float64 {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil {
		r.fail(err)
	}
	return v
}

func (r row) float(name string) float64 { return r.number(r.text(name)) }
func (r row) int(name string) int       { return int(r.float(name)) }

func (r row) time(name string) float64 {
	t, err := time.Parse(time.DateTime, r.text(name))
	if err != nil {
		r.fail(err)
	}
	return t.Sub(monday).Seconds()
}

// read turns each line of a csv file into a job, and sorts the jobs by
// submission.
func read(path string, parse func(row) (Job, error)) ([]Job, error) {
	var jobs []Job
	err := each(path, func(r row) error {
		j, err := parse(r)
		jobs = append(jobs, j)
		return err
	})
	sort.SliceStable(jobs, func(i, k int) bool { return jobs[i].Submit < jobs[k].Submit })
	return jobs, err
}

// each visits the lines of a csv file, gzip or not.
func each(path string, visit func(row) error) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	var in io.Reader = bufio.NewReader(file)
	if strings.HasSuffix(path, ".gz") {
		if in, err = gzip.NewReader(in); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	lines := csv.NewReader(in)
	header, err := lines.Read()
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	column := map[string]int{}
	for i, name := range header {
		column[name] = i
	}
	for {
		fields, err := lines.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", path, err) // names the line
		}
		var bad error
		if err := visit(row{column, fields, &bad}); err != nil {
			line, _ := lines.FieldPos(0)
			return fmt.Errorf("%s:%d: %w", path, line, err)
		}
	}
}

// Pod is a request of an openb pod for one GPU or a part of one.
type Pod struct{ Milli, CPU, MiB int }

// OpenbPods reads the pods of an openb list (Weng et al., FGD, ATC 23) that ask
// for one GPU or a part of one: thousandths of it and of a core, and MiB.
func OpenbPods(path string) ([]Pod, error) {
	var pods []Pod
	err := each(path, func(r row) error {
		if r.int("num_gpu") == 1 {
			pods = append(pods, Pod{r.int("gpu_milli"), r.int("cpu_milli"), r.int("memory_mib")})
		}
		return r.err()
	})
	return pods, err
}
