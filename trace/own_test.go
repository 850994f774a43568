package trace_test

import (
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/trace"
	"pgregory.net/rapid"
)

func TestOwnCSV(t *testing.T) {
	for _, test := range []struct {
		name, text string
		want       []string
	}{
		{"least", "gpus,duration\n8,3600\n", []string{`{"job":"0","gpus":8,"work":3600}`}},
		{"any order, comments, quotes, windows", "\ufeff# made by hand\r\nduration,\"name\",gpus\r\n1h30m,\"say \"\"hi\"\", twice\",0.25\r\n\r\n# more\r\n2d,\"two\r\nlines\",2\r\n", []string{
			`{"job":"0","roles":[{"tasks":1,"gpu":0.25}],"work":5400,"name":"say \"hi\", twice"}`,
			`{"job":"1","gpus":2,"work":172800,"name":"two\u000d\u000alines"}`,
		}},
		{"everything", "id,submit,user,tenant,app,rungs,name,model,backbone,dataset,share,batch,kind,units,unit,priority,deadline,estimate,stop,retries,gpus,tasks,min_tasks,max_tasks,cpus,mem,gpu_mem,gpu_type,slots,duration,attempts,outcome,at_least,wait,group,qos,rank,weight,user_estimate,group_estimate,group_gpu_estimate\n" +
			"x,10,u,t,s,4x8+1x0.5,n,m,b,d,yes,32,fine-tuning,1.5,epochs,-3,20,90s,never,-1,4,2,1,4,8,16GiB,1024,A|B,rdma=1|mem/huge=2GiB,100,30|500,killed,1,7,g,q,-1.5,2,1,2,3\n", []string{
			`{"job":"x","submit":10,"types":"A|B","roles":[{"tasks":2,"min":1,"max":4,"gpu":2,"gpu_mem":1024,"cpu":4,"mem":8589934592,"slots":{"mem/huge":2147483648,"rdma":1}}],"work":100,"attempts":[30,500],"outcome":"killed","wait":7,"at_least":true,"name":"n","user":"u","tenant":"t","app":"s","kind":"fine-tuning","model":"m","backbone":"b","dataset":"d","share":true,"batch":32,"units":1.5,"unit":"epochs","priority":-3,"deadline":20,"estimate":90,"stop":"never","retries":-1,"hints":{"user_estimate":1,"group_estimate":2,"group_gpu_estimate":3,"group":"g","rank":-1.5,"weight":2,"qos":"q","rungs":"4x8+1x0.5"}}`,
		}},
		{"times of day, unsorted", "submit,gpus,duration,deadline\n2024-03-01T10:00:00+01:00,1,1,2024-03-01 10:00:00\n2024-03-01 08:30:00.5,1,1,+90m\n", []string{
			`{"job":"1","gpus":1,"work":1,"deadline":5400}`,
			`{"job":"0","submit":1799.5,"gpus":1,"work":1,"deadline":5399.5}`,
		}},
		{"seconds since 1970", "submit,gpus,duration\n1709280000,1,1\n1709280060,1,1\n", []string{`{"job":"0","gpus":1,"work":1}`, `{"job":"1","submit":60,"gpus":1,"work":1}`}},
		{"the last attempt as duration", "gpus,duration,attempts\n1,,5|6|7\n", []string{`{"job":"0","gpus":1,"work":7,"attempts":[5,6]}`}},
		{"cores only", "gpus,cpus,tasks,duration\n0,10,4,1\n,10,,1\n", []string{
			`{"job":"0","roles":[{"tasks":4,"cpu":2.5}],"work":1}`, `{"job":"1","roles":[{"tasks":1,"cpu":10}],"work":1}`,
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			entries, info := readText(t, test.text, trace.Options{})
			if info.Format != "csv" {
				t.Errorf("taken for format %s", info.Format)
			}
			equalLines(t, entries, test.want...)
		})
	}
}

func TestOwnCSVErrors(t *testing.T) {
	for text, want := range map[string]string{
		"gpus,duration\n1,\n":                                  "a duration, or the run times of all attempts",
		"gpus,duration\n-1,1\n":                                "column 1 (gpus)",
		"gpus,duration\n1,-1\n":                                "column 2 (duration)",
		"gpus,duration\n1,NaN\n":                               "column 2 (duration)",
		"gpus,duration\n1,1e300\n":                             "column 2 (duration)",
		"gpus,duration\n1,200y\n":                              "column 2 (duration)",
		"gpus,duration\n1,4e9\n":                               "0 to 100 years",
		"gpus,duration\n1e9,1\n":                               "at most 1000000 are allowed",
		"gpus,duration,tasks\n3,1,2\n":                         "asks for 1.5 GPUs in one task",
		"gpus,duration,tasks\n1,1,0\n1,1,7\n":                  "cannot be divided among 7 tasks",
		"gpus,duration,attempts\n1,1,5||6\n":                   "seconds joined by |",
		"gpus,duration,kind\n1,1,mining\n":                     "column 3 (kind)",
		"gpus,duration,stop\n1,1,maybe\n":                      "column 3 (stop)",
		"gpus,duration,outcome\n1,1,lost\n":                    "column 3 (outcome)",
		"gpus,duration,retries\n1,1,-2\n":                      "column 3 (retries)",
		"gpus,duration,submit\n1,1,soon\n":                     "column 3 (submit)",
		"gpus,duration,submit\n1,1,1999-01-01\n":               "since September 2001",
		"gpus,duration,submit\n1,1,5\n1,1,2024-01-01\n":        "in all rows the same",
		"gpus,duration,mem\n1,1,much\n":                        "column 3 (mem)",
		"gpus,duration,max_tasks\n2,1,1\n":                     "runs with 2 to 1 tasks",
		"gpus,duration,name\n1,1,\"open\n":                     "a closing quote",
		"gpus,duration,tasks,gpus_per_node\n1,1,1000001,8\n":   "column 3 (tasks)",
		"gpus,duration,priority\n1,1,9999999999\n":             "column 3 (priority)",
		"gpus,duration,submit\n1,1,9223372036854775807\n":      "column 3 (submit)",
		"gpus,duration,cpus\n1,1,99999999999999999999999999\n": "column 3 (cpus)",
	} {
		_, err := trace.NewReader(strings.NewReader(text), "jobs.csv", trace.Options{})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "jobs.csv") {
			t.Errorf("%q:\n have %v\n want %s", text, err, want)
		}
	}
	_, info := readText(t, "gpus,duration,gpsu\n1,1,1\n", trace.Options{})
	if !slices.Equal(info.Ignored, []string{"gpsu"}) {
		t.Errorf("a column that is not known is not told: %v", info.Ignored)
	}
}

func TestOwnJSONErrors(t *testing.T) {
	for line, want := range map[string]string{
		`{"gpus":1,"work":-1}`:                      "a number, 0 or more",
		`{"gpus":1,"work":"1"}`:                     "expected a number",
		`{"gpus":0}`:                                "a whole number from 1",
		`{"work":1}`:                                "asks for 0 tasks",
		`{"gpus":1,"wokr":1}`:                       `no field "wokr"`,
		`{"gpus":1,"hints":{"x":1}}`:                `no field "x"`,
		`{"gpus":1,"where":"zone in a"}`:            `write values in parentheses`,
		`{"gpus":1,"tolerate":"a:b"}`:               `"b" is no effect`,
		`{"gpus":1,"within":"?"}`:                   `write a level of the topology`,
		`{"gpus":1,"roles":[{"n":1}]}`:              `no field "n"`,
		`{"gpus":1} x`:                              "the end of the line",
		`{"gpus":1`:                                 "a comma or the end of the object",
		`{"gpus":1,}`:                               "a string",
		`[1]`:                                       "an object",
		`{"gpus":1,"kind":"mining"}`:                "a kind of job",
		`{"gpus":1,"outcome":"lost"}`:               "passed, failed or killed",
		`{"gpus":1,"name":"a` + "\x01" + `"}`:       "no control character",
		`{"gpus":1,"name":"\q"}`:                    "an escape",
		`{"gpus":1,"name":"\u12"}`:                  "four hexadecimal digits",
		`{"gpus":1,"at_least":1}`:                   "true or false",
		`{"roles":[{},{},{},{},{},{},{},{},{}]}`:    "8 roles at most",
		`{"gpus":1,"hints":{"stages":[1,2,3,4]}}`:   "3 stages at most",
		`{"gpus":1,"hints":{"worth":[[1,2,3]]}}`:    "a moment and a value",
		`{"gpus":1,"submit":4000000000}`:            "more than 100 years",
		`{"gpus":1,"batch":99999999999999999999}`:   "a whole number",
		`{"gpus":1,"hints":{"rank":1e999}}`:         "expected a number",
		`{"roles":[{"tasks":1,"gpu":1.5}]}`:         "must be a whole number",
		`{"gpus":1,"attempts":[2e9,2e9,2e9,2e9]}`:   "100 years",
		`{"gpus":1,"work":` + "1" + `,"stop":null}`: "a string",
	} {
		text := `{"norn":"trace","version":1}` + "\n" + line + "\n"
		_, err := trace.NewReader(strings.NewReader(text), "jobs.jsonl", trace.Options{})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "jobs.jsonl") {
			t.Errorf("%s:\n have %v\n want %s", line, err, want)
		}
	}
	for _, header := range []string{`{"norn":"trace","version":2}`, `{"norn":"log","version":1}`, `{"norn":"trace"}`, `{"norn":"trace","version":1,"origin":"yesterday"}`} {
		if _, err := trace.NewReader(strings.NewReader(header+"\n"), "x", trace.Options{Format: "jsonl"}); err == nil {
			t.Errorf("%s is no error", header)
		}
	}
}

// texts are the strings of the properties: all of Unicode, with what is special
// in CSV and JSON more often than not.
func texts() *rapid.Generator[string] {
	return rapid.OneOf(rapid.Just(""), rapid.StringN(0, 12, -1), rapid.StringOfN(rapid.RuneFrom([]rune("ab ,|\"\\\n\r#\t\u2028é\x00\U0001f600")), 0, 6, -1))
}

// times are durations to the nanosecond, up to some years.
func times() *rapid.Generator[time.Duration] {
	return rapid.OneOf(rapid.Just(time.Duration(0)), rapid.Map(rapid.Int64Range(0, 1e17), func(n int64) time.Duration { return time.Duration(n) }),
		rapid.Map(rapid.IntRange(0, 1e6), func(n int) time.Duration { return time.Duration(n) * time.Second }))
}

// numbers are amounts of anything; signed ones are what may be negative, too.
func numbers() *rapid.Generator[float64] {
	return rapid.OneOf(rapid.Just(0.0), rapid.Float64Range(0, 1e18), rapid.Float64Range(0, 1))
}

func signed() *rapid.Generator[float64] {
	return rapid.OneOf(rapid.Just(0.0), rapid.Float64Range(-1e300, 1e300))
}

func sizes() *rapid.Generator[unit.Bytes] {
	return rapid.Map(rapid.Int64Range(0, 1<<44), func(n int64) unit.Bytes { return unit.Bytes(n) })
}

func drawRole(t *rapid.T, first bool) job.Role {
	tasks := rapid.Int32Range(1, 5000).Draw(t, "tasks")
	r := job.Role{Name: texts().Draw(t, "role"), Tasks: tasks}
	if first && rapid.Bool().Draw(t, "elastic") {
		r.Min, r.Max = rapid.Int32Range(0, tasks).Draw(t, "min"), rapid.Int32Range(tasks, 9999).Draw(t, "max")
	}
	r.GPU = rapid.OneOf(rapid.Just(unit.One), rapid.Map(rapid.Int64Range(0, 999), func(n int64) unit.Milli { return unit.Milli(n) }),
		rapid.Map(rapid.Int64Range(1, 64), func(n int64) unit.Milli { return unit.Milli(n) * unit.One })).Draw(t, "gpu")
	if rapid.Bool().Draw(t, "cpu too") || r.GPU == 0 {
		r.CPU = unit.Milli(rapid.Int64Range(1, 1<<30).Draw(t, "cpu"))
		r.Memory, r.GPUMemory = sizes().Draw(t, "mem"), sizes().Draw(t, "gpu_mem")
	}
	r.Slots = rapid.SampledFrom([]job.Slots{"", "", "rdma=1", "a=1125899906842624|b.c/d_e-f=2"}).Draw(t, "slots")
	return r
}

func drawHints(t *rapid.T) *job.Hints {
	h := &job.Hints{
		UserEstimate: times().Draw(t, "ue"), GroupEstimate: times().Draw(t, "ge"), GroupSizeEstimate: times().Draw(t, "gse"),
		Group: texts().Draw(t, "group"), Iteration: times().Draw(t, "iteration"), Speed: numbers().Draw(t, "speed"),
		GPUUse: numbers().Draw(t, "use"), MemoryUse: numbers().Draw(t, "muse"), GPUMemory: sizes().Draw(t, "gmem"),
		Mixed: rapid.Bool().Draw(t, "mixed"), Weight: numbers().Draw(t, "weight"), QoS: texts().Draw(t, "qos"), CPUPerGPU: unit.Milli(rapid.IntRange(0, 1e6).Draw(t, "cpu per gpu")), Latency: rapid.SampledFrom([]float64{0, 1, 1.25, 3}).Draw(t, "latency"), Sensitivity: texts().Draw(t, "sensitivity"),
		Adapts: texts().Draw(t, "adapts"), Plan: texts().Draw(t, "plan"), Pattern: texts().Draw(t, "pattern"),
		Sensitive: rapid.Bool().Draw(t, "sensitive"), CPUTime: times().Draw(t, "ct"), CPUEstimate: times().Draw(t, "ce"),
		CPUs: unit.Milli(rapid.Int64Range(0, 1<<40).Draw(t, "cpus")), CPUMemory: sizes().Draw(t, "cmem"),
	}
	if h.HasRank = rapid.Bool().Draw(t, "ranked"); h.HasRank {
		h.Rank = signed().Draw(t, "rank")
	}
	for i := range rapid.IntRange(0, job.MaxRungs).Draw(t, "rungs") {
		h.Rungs[i] = job.Rung{Jobs: int32(job.MaxRungs - i), Units: rapid.Float64Range(1e-3, 1e9).Draw(t, "units")}
	}
	for i := range h.Stages {
		h.Stages[i] = times().Draw(t, "stage")
	}
	for i := range h.Worth {
		h.Worth[i] = job.Worth{By: times().Draw(t, "by"), Value: signed().Draw(t, "value")}
	}
	return h
}

// drawShape is a shape of tables and layers, as it is read.
func drawShape(t *rapid.T) *job.Shape {
	n := func(name string, most int64) int64 { return rapid.Int64Range(1, most).Draw(t, name) }
	s := &job.Shape{
		Tables:    []job.Table{{Name: rapid.StringMatching("[a-z.]{0,3}").Draw(t, "table"), Rows: n("rows", 1e9), Dim: n("dim", 512), Lookups: n("lookups", 100)}},
		Layers:    []job.Layers{{Name: rapid.StringMatching("[a-z0-9_]{0,3}").Draw(t, "stack"), Widths: rapid.SliceOfN(rapid.Int64Range(1, 9999), 2, 5).Draw(t, "widths")}},
		Optimizer: job.Optimizer(n("optimizer", 4) - 1), Sparse: rapid.Bool().Draw(t, "sparse"), Params: n("params", 9) - 1, Kept: n("kept", 9) - 1, Once: n("once", 9) - 1,
		Workspace: unit.Bytes(n("workspace", 1<<40) - 1), Context: unit.Bytes(n("context", 1<<40) - 1),
	}
	return s
}

// drawEntries makes a trace of anything that a trace can hold.
func drawEntries(t *rapid.T, demands *job.Interner) []trace.Entry {
	n := rapid.IntRange(0, 6).Draw(t, "jobs")
	entries := make([]trace.Entry, n)
	submit := time.Duration(0)
	for i := range entries {
		submit += times().Draw(t, "gap")
		j := job.Job{
			ID: job.ID(i), Key: fmt.Sprintf("%d%s", i, texts().Draw(t, "key")), Name: texts().Draw(t, "name"),
			User: texts().Draw(t, "user"), Tenant: texts().Draw(t, "tenant"), Partition: texts().Draw(t, "partition"), App: texts().Draw(t, "app"), Submit: submit,
			Kind: job.Kind(rapid.IntRange(0, 3).Draw(t, "kind")), Model: texts().Draw(t, "model"),
			Backbone: texts().Draw(t, "backbone"), Dataset: texts().Draw(t, "dataset"), Share: rapid.Bool().Draw(t, "share"), Batch: rapid.IntRange(0, 1<<40).Draw(t, "batch"),
			Units: numbers().Draw(t, "units"), Unit: texts().Draw(t, "unit"), Priority: rapid.Int32().Draw(t, "priority"),
			Deadline: times().Draw(t, "deadline"), Soft: rapid.Bool().Draw(t, "soft"), Tier: job.Tier(rapid.IntRange(0, 2).Draw(t, "tier")), Estimate: times().Draw(t, "estimate"),
			Stop: job.StopMode(rapid.IntRange(0, 3).Draw(t, "stop")), Retries: rapid.Int32Range(-1, 9).Draw(t, "retries"),
		}
		var d job.Demand
		for k := range rapid.IntRange(1, job.MaxRoles).Draw(t, "roles") {
			d.Roles[k] = drawRole(t, k == 0)
		}
		d.Types = texts().Draw(t, "types")
		d.Where = rapid.SampledFrom([]string{"", "zone=a", `!spot, mem>40, zone in ("",a) | x`}).Draw(t, "where")
		d.Tolerate = rapid.SampledFrom([]string{"", "*", "a=,spot:NoSchedule"}).Draw(t, "tolerate")
		d.Within = rapid.SampledFrom([]string{"", "", "rack", "node"}).Draw(t, "within")
		d.Prefer = d.Within != "" && rapid.Bool().Draw(t, "prefer")
		if rapid.Bool().Draw(t, "plain") {
			d = job.GPUs(rapid.IntRange(1, 3000).Draw(t, "gpus"))
		}
		j.Demand = demands.Get(d)
		if rapid.Bool().Draw(t, "hinted") {
			j.Hints = drawHints(t)
			if j.Batch > 0 && rapid.Bool().Draw(t, "shaped") {
				j.Hints.Shape = drawShape(t)
			}
		}
		truth := trace.Truth{
			Work: times().Draw(t, "work"), Outcome: trace.Outcome(rapid.IntRange(0, 2).Draw(t, "outcome")),
			HasWait: rapid.Bool().Draw(t, "waited"), AtLeast: rapid.Bool().Draw(t, "at least"),
		}
		if truth.HasWait {
			truth.Wait = times().Draw(t, "wait")
		}
		if rapid.Bool().Draw(t, "again") {
			truth.Attempts = rapid.SliceOfN(times(), 1, 4).Draw(t, "attempts")
		}
		entries[i] = trace.Entry{Job: j, Truth: truth}
	}
	return entries
}

// TestJSONRoundTrip writes anything that a trace can hold as JSON Lines and
// reads back the very same.
func TestJSONRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var demands job.Interner
		entries := drawEntries(t, &demands)
		var text strings.Builder
		done, err := trace.WriteJSON(&text, &list{slices.Clone(entries)})
		if err != nil || done.Jobs != len(entries) || len(done.Lost) != 0 {
			t.Fatalf("%+v, %v", done, err)
		}
		back := readBack(t, text.String())
		if len(back) != len(entries) {
			t.Fatalf("%d jobs of %d", len(back), len(entries))
		}
		for i := range entries {
			if !reflect.DeepEqual(entries[i], back[i]) {
				t.Fatalf("job %d:\n wrote %+v\n read  %+v\n as %s", i, entries[i], back[i], text.String())
			}
		}
	})
}

func readBack(t *rapid.T, text string) []trace.Entry {
	r, err := trace.NewReader(strings.NewReader(text), "written", trace.Options{})
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	var back []trace.Entry
	for {
		var e trace.Entry
		err := r.Next(&e)
		if errors.Is(err, io.EOF) {
			return back
		}
		if err != nil && strings.Contains(err.Error(), "looks like a row of its own") {
			t.Skip("a name with line ends and commas enough to pass for rows")
		}
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		back = append(back, e)
	}
}

// carried is an entry without what the CSV cannot carry.
func carried(e trace.Entry, demands *job.Interner) trace.Entry {
	d := *e.Job.Demand
	d.Roles = [job.MaxRoles]job.Role{d.Roles[0]}
	d.Roles[0].Name = ""
	e.Job.Demand = demands.Get(d)
	if h := e.Job.Hints; h != nil {
		kept := job.Hints{
			UserEstimate: h.UserEstimate, GroupEstimate: h.GroupEstimate, GroupSizeEstimate: h.GroupSizeEstimate,
			Group: h.Group, Rank: h.Rank, HasRank: h.HasRank, Weight: max(0, h.Weight), QoS: h.QoS, Sensitivity: h.Sensitivity, Shape: h.Shape, Rungs: h.Rungs, CPUPerGPU: h.CPUPerGPU, Latency: h.Latency,
		}
		e.Job.Hints = &kept
		if kept == (job.Hints{}) {
			e.Job.Hints = nil
		}
	}
	return e
}

// TestCSVRoundTrip does the same with the CSV and what it can carry, and
// checks that it tells what it cannot.
func TestCSVRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var demands job.Interner
		entries := drawEntries(t, &demands)
		lost := 0
		for i := range entries {
			if h := entries[i].Job.Hints; h != nil && h.Weight < 0 {
				h.Weight = -h.Weight
			}
			if want := carried(entries[i], &demands); !reflect.DeepEqual(want.Job.Demand, entries[i].Job.Demand) {
				lost++
			}
		}
		var text strings.Builder
		done, err := trace.WriteCSV(&text, &list{slices.Clone(entries)})
		if err != nil || done.Jobs != len(entries) {
			t.Fatalf("%+v, %v", done, err)
		}
		if lost > 0 && len(done.Lost) == 0 {
			t.Fatalf("it does not tell what it lost:\n%s", text.String())
		}
		back := readBack(t, text.String())
		for i := range entries {
			want := carried(entries[i], &demands)
			if !reflect.DeepEqual(want, back[i]) {
				t.Fatalf("job %d:\n wrote %+v %+v\n read  %+v %+v\n as %s", i, want, want.Job.Demand, back[i], back[i].Job.Demand, text.String())
			}
		}
	})
}

// TestConvert writes a published trace in every way and reads it back.
func TestConvert(t *testing.T) {
	from := data(t, "philly/pcs/trace_ed69ec.csv")
	want, _ := readAll(t, from, trace.Options{})
	for _, name := range []string{"a.csv", "a.csv.gz", "a.csv.zst", "a.jsonl", "a.jsonl.gz", "a.jsonl.zst"} {
		r, err := trace.Open(from, trace.Options{})
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), name)
		done, err := trace.WriteFile(path, r)
		r.Close()
		if err != nil || done.Jobs != len(want) || len(done.Lost) > 0 {
			t.Fatalf("%s: %+v, %v", name, done, err)
		}
		got, _ := readAll(t, path, trace.Options{})
		if !slices.Equal(lines(t, got), lines(t, want)) {
			t.Errorf("%s: is not the same", name)
		}
	}
	if _, err := trace.WriteFile(filepath.Join(t.TempDir(), "a.txt"), &list{}); err == nil {
		t.Error("a name that tells no format is no error")
	}
}

// TestOriginIsKept checks that the time of day survives both formats.
func TestOriginIsKept(t *testing.T) {
	for _, name := range []string{"a.csv", "a.jsonl"} {
		r, err := trace.NewReader(strings.NewReader(small), "small", trace.Options{})
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), name)
		if done, err := trace.WriteFile(path, r); err != nil || len(done.Lost) > 0 {
			t.Fatal(err, done)
		}
		entries, info := readAll(t, path, trace.Options{})
		if want := time.Date(2024, 3, 1, 8, 0, 0, 0, time.UTC); !info.Origin.Equal(want) || len(entries) != 3 {
			t.Errorf("%s: begins at %v", name, info.Origin)
		}
	}
}

// TestLoss checks what is said to be lost in a CSV.
func TestLoss(t *testing.T) {
	entries, _ := readText(t, `{"norn":"trace","version":1}
{"roles":[{"name":"chief","tasks":1,"gpu":1},{"name":"ps","tasks":2,"cpu":4}],"hints":{"stages":[1,2,3],"plan":"dp"}}
{"gpus":1,"hints":{"worth":[[1,2]],"cpu_time":3,"speed":1}}
`, trace.Options{})
	var text strings.Builder
	done, err := trace.WriteCSV(&text, &list{entries})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, l := range done.Lost {
		got = append(got, fmt.Sprintf("%s: %d", l.What, l.Jobs))
	}
	want := []string{
		"roles beside the first: 1", "names of roles: 1", "times of an iteration, of its stages and bursts: 1", "speed and use of GPUs: 1",
		"worth of deadlines: 1", "adaptation, plans and patterns: 1", "running on CPUs instead: 1",
	}
	if !slices.Equal(got, want) {
		t.Errorf("have %q\nwant %q", got, want)
	}
	if want := "job,submit,duration,gpus\n0,0,0,1\n1,0,0,1\n"; text.String() != want {
		t.Errorf("have %q", text.String())
	}
	bad := entries[1]
	bad.Job.Units = math.NaN()
	if _, err := trace.WriteJSON(io.Discard, &list{[]trace.Entry{bad}}); err == nil {
		t.Error("a number that is none was written")
	}
}
