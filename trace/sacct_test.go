package trace_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/trace"
)

// sacctJSONExport has jobs in the forms of Slurm 24.05, of 22.05 (plain numbers), and what
// is no job: tasks that have not started, an unknown state, a job that is a number.
const sacctJSONExport = `{
 "jobs": [
  {"account": "vision", "comment": {"administrator": "", "job": "", "system": ""}, "allocation_nodes": 2,
   "array": {"job_id": 0, "limits": {"max": {"running": {"tasks": 0}}}, "task_id": {"set": false, "infinite": false, "number": 0}, "task": ""},
   "association": {"account": "vision", "cluster": "c1", "partition": "", "user": "ann", "id": 12}, "cluster": "c1",
   "time": {"elapsed": 7200, "eligible": 1709280000, "end": 1709287500, "planned": {"set": true, "infinite": false, "number": 300}, "start": 1709280300,
    "submission": 1709280000, "suspended": 0, "limit": {"set": true, "infinite": false, "number": 1440}},
   "het": {"job_id": 0, "job_offset": {"set": false, "infinite": false, "number": 0}}, "job_id": 100, "name": "train", "nodes": "gpu[01-02]",
   "partition": "gpu", "priority": {"set": true, "infinite": false, "number": 4294901700}, "qos": "high",
   "required": {"CPUs": 16, "memory_per_cpu": {"set": false, "infinite": false, "number": 0}, "memory_per_node": {"set": true, "infinite": false, "number": 65536}},
   "state": {"current": ["COMPLETED"], "reason": "None"}, "user": "ann",
   "steps": [{"step": {"id": "100.0", "name": "python"}, "tres": {"requested": {"max": [], "average": [{"type": "gres", "name": "gpuutil", "id": 1003, "count": 700},
     {"type": "gres", "name": "gpumem", "id": 1004, "count": 31457280000}]}, "allocated": []}}],
   "tres": {"allocated": [{"type": "cpu", "name": "", "id": 1, "count": 16}, {"type": "mem", "name": "", "id": 2, "count": 131072}, {"type": "node", "name": "", "id": 4, "count": 2},
     {"type": "billing", "name": "", "id": 5, "count": 16}, {"type": "gres", "name": "gpu", "id": 1001, "count": 8}, {"type": "gres", "name": "gpu:a100", "id": 1002, "count": 8}],
    "requested": [{"type": "cpu", "name": "", "id": 1, "count": 16}]}},
  {"account": "nlp", "allocation_nodes": 1, "array": {"job_id": 101, "task": null, "task_id": 4}, "job_id": 105, "name": "sweep", "partition": "long,gpu", "priority": 7, "qos": "normal",
   "time": {"elapsed": 90, "eligible": 1709283600, "start": 1709285400, "submission": 1709276400, "limit": {"set": false, "infinite": true, "number": 0}},
   "state": {"current": "CANCELLED", "reason": "None"}, "user": "bob", "required": {"CPUs": 4, "memory_per_cpu": {"set": true, "infinite": false, "number": 4096}},
   "tres": {"allocated": [{"type": "cpu", "count": 4}, {"type": "gres", "name": "gpu", "count": 1}], "requested": []}},
  {"account": "nlp", "array": {"job_id": 101, "task": "5-9", "task_id": {"set": false, "number": 0}}, "job_id": 101, "time": {"elapsed": 0, "submission": 1709276400, "start": 0},
   "state": {"current": ["PENDING"]}, "association": {}},
  {"account": "nlp", "het": {"job_id": 103, "job_offset": {"set": true, "infinite": false, "number": 0}}, "job_id": 103, "user": "dan", "partition": "gpu",
   "time": {"elapsed": 60, "submission": 1709290800, "eligible": 1709290800, "start": 1709290830}, "state": {"current": ["TIMEOUT"]},
   "tres": {"allocated": [{"type": "cpu", "count": 8}, {"type": "node", "count": 1}, {"type": "gres", "name": "gpu", "count": 4}]}},
  {"account": "nlp", "het": {"job_id": 103, "job_offset": {"set": true, "infinite": false, "number": 1}}, "job_id": 104, "user": "dan", "partition": "cpu",
   "time": {"elapsed": 60, "submission": 1709290800, "eligible": 1709290800, "start": 1709290830}, "state": {"current": ["TIMEOUT"]},
   "tres": {"allocated": [{"type": "cpu", "count": 64}, {"type": "node", "count": 2}, {"type": "mem", "count": 102400}]}},
  {"job_id": 106, "time": {"elapsed": 60, "submission": 1709290800, "start": 1709290830}, "state": {"current": ["HIBERNATED"]}, "tres": {"allocated": [{"type": "cpu", "count": 1}]}}
 ],
 "meta": {"plugin": {"type": ""}, "slurm": {"version": {"major": "24", "micro": "1", "minor": "05"}, "release": "24.05.1", "cluster": "c1"}},
 "errors": [], "warnings": []
}
`

func TestSacctJSON(t *testing.T) {
	entries, info := readText(t, sacctJSONExport, trace.Options{})
	if info.Format != "sacct-json" {
		t.Fatalf("taken for format %s", info.Format)
	}
	equalLines(t, entries,
		`{"job":"101_4","roles":[{"tasks":1,"gpu":1,"cpu":4,"mem":17179869184}],"work":90,"outcome":"killed","wait":1800,"name":"sweep","user":"bob","tenant":"nlp","partition":"long","priority":7,"hints":{"qos":"normal"}}`,
		`{"job":"100","submit":3600,"types":"a100","roles":[{"tasks":2,"gpu":4,"cpu":8,"mem":68719476736}],"work":7200,"wait":300,"name":"train","user":"ann","tenant":"vision","partition":"gpu","priority":2147483647,"estimate":86400,"hints":{"gpu_use":0.875,"gpu_mem":31457280000,"qos":"high"}}`,
		`{"job":"103","submit":14400,"roles":[{"name":"het0","tasks":1,"gpu":4,"cpu":8},{"name":"het1","tasks":2,"cpu":32,"mem":53687091200}],"work":60,"outcome":"failed","wait":30,"user":"dan","tenant":"nlp","partition":"gpu"}`,
	)
	if info.Rows != 6 || info.Jobs != 3 || info.Folded != 1 || info.LeftOut != 2 {
		t.Errorf("%+v", info)
	}
	if want := time.Unix(1709276400, 0).UTC(); !info.Origin.Equal(want) {
		t.Errorf("begins at %v", info.Origin)
	}
	equalReasons(t, info, "1 tasks of an array that have not started", `1 its state "HIBERNATED" is not known`)
	for _, r := range info.Reasons {
		if !strings.HasPrefix(r.First.Error(), "left out: job 10") {
			t.Errorf("the first is told as %v", r.First)
		}
	}
}

// equalReasons compares why rows were left out, and how many.
func equalReasons(t *testing.T, info trace.Info, want ...string) {
	t.Helper()
	var got []string
	rows := 0
	for _, r := range info.Reasons {
		got = append(got, fmt.Sprint(r.Rows, " ", r.Why))
		rows += r.Rows
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("have\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if rows != info.LeftOut+info.Bad {
		t.Errorf("reasons for %d rows, and %d were left out", rows, info.LeftOut+info.Bad)
	}
}

// TestSacctJSONErrors: what is no job names the job or its place, and what is cut off is told.
func TestSacctJSONErrors(t *testing.T) {
	job := func(fields string) string { return `{"jobs":[{"association":{},"job_id":7,` + fields + `}]}` }
	for text, want := range map[string]string{
		job(`"time":{"submission":"soon","elapsed":1},"state":{"current":["COMPLETED"]}`):                        `job 7, time.submission: found "soon", expected a time of day`,
		job(`"time":{"submission":1709290800,"elapsed":-1},"state":{"current":["COMPLETED"]}`):                   `job 7, time.elapsed: found "-1", expected seconds, 0 or more`,
		job(`"time":{"submission":1709290800,"elapsed":1,"start":1709290800},"state":{"current":["COMPLETED"]}`): "asks for no GPU, CPU or memory",
		job(`"account":7`):                         "item 1: found nothing, expected a job as sacct --json writes it",
		`{"jobs":[{"association":{},"job_id":7}`:   "unexpected EOF",
		`{"jobs":[{"association":{}}],"errors":[}`: "invalid character",
	} {
		_, err := trace.NewReader(strings.NewReader(text), "sacct.json", trace.Options{})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "sacct.json") {
			t.Errorf("%s:\n have %v\n want %s", text, err, want)
		}
	}
	squeue := `{"jobs":[{"account":"a","job_id":7,"job_state":["RUNNING"],"submit_time":{"set":true,"number":1709290800}}]}`
	if _, err := trace.NewReader(strings.NewReader(squeue), "squeue.json", trace.Options{}); err == nil || !strings.Contains(err.Error(), "in no known format") {
		t.Errorf("a list of squeue is read: %v", err)
	}
}

// TestSacctStates: a state that nobody knows is counted by its name and ends nothing; rows are
// counted by why they are left out.
func TestSacctStates(t *testing.T) {
	var text strings.Builder
	text.WriteString("JobID|Partition|Submit|Start|State|Elapsed|NCPUS|JobName\n")
	for _, r := range []string{
		"1|a,b|2024-03-01T08:00:00|2024-03-01T08:00:00|COMPLETED|00:01|1|x", "2|a|1709280000|1709280000|LOST_IN_SPACE|00:01|1|x",
		"3|a|2024-03-01T08:00:00||PENDING|00:00|1|x", "4|a|2024-03-01T08:00:00||PENDING|00:00|1|x", "5|a|2024-03-01T08:00:00|2024-03-01T08:00:00||00:01|1|x",
		"6|a|2024-03-01T08:00:00|2024-03-01T08:00:00|LOST_IN_SPACE by 7|00:01|1|x", "6.batch||2024-03-01T08:00:00|2024-03-01T08:00:00|COMPLETED|00:01|1|y",
		"7|a|yesterday|2024-03-01T08:00:00|COMPLETED|00:01|1|x", "8|a|tomorrow|2024-03-01T08:00:00|COMPLETED|00:01|1|x", "9|a|1709280000.5|1709280010|LAUNCH_FAILED|00:01|1|x",
	} {
		text.WriteString(r + "\n")
	}
	entries, info := readText(t, text.String(), trace.Options{SkipBad: true})
	equalLines(t, entries, `{"job":"1","roles":[{"tasks":1,"cpu":1}],"work":1,"wait":0,"name":"x","tenant":"a","partition":"a"}`,
		`{"job":"9","submit":0.5,"roles":[{"tasks":1,"cpu":1}],"work":1,"outcome":"failed","wait":9.5,"name":"x","tenant":"a","partition":"a"}`)
	equalReasons(t, info, `2 its state "LOST_IN_SPACE" is not known`, "2 it has not started", "1 its state is not told",
		"2 Submit: expected a time of day, such as 2006-01-02 15:04:05, from 1970 to 2200, or seconds since 1970")
}

// TestReasonsAreBounded: what is wrong in too many ways is counted together.
func TestReasonsAreBounded(t *testing.T) {
	text := "JobID|Submit|State|Elapsed\n"
	for i := range 50 {
		text += strings.Repeat("x", i+1) + "|2024-03-01T08:00:00|" + strings.Repeat("S", i+1) + "|00:01\n"
	}
	r, err := trace.NewReader(strings.NewReader(text), "t", trace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	_, info := drain(t, r)
	if n := len(info.Reasons); n != 20 || info.Reasons[19].Rows != 31 || info.Reasons[19].Why != "anything else" || info.LeftOut != 50 {
		t.Errorf("%d reasons, the last %+v", n, info.Reasons[n-1])
	}
}
