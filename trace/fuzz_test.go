package trace_test

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/trace"
)

// FuzzFormats reads anything as every format in turn: nothing panics, and what
// comes out is in order and valid and survives being written and read again.
func FuzzFormats(f *testing.F) {
	formats := trace.Formats()
	index := map[string]int{}
	for i, format := range formats {
		index[format.Name] = i
	}
	for _, s := range samples {
		f.Add(uint8(index[s.format]), []byte(s.text), false)
	}
	f.Add(uint8(index["csv"]), []byte(small), true)
	f.Add(uint8(index["csv"]), []byte("gpus,duration,mem,cpus,tasks,deadline,attempts\n4,1h,16GiB,8,2,+2h,1|2\nx,,,,,,\n"), true)
	f.Add(uint8(index["jsonl"]), []byte(`{"norn":"trace","version":1,"origin":"2024-03-01T00:00:00Z"}`+"\n"+`{"job":"a\u00e9\ud83d\ude00","gpus":1,"work":1.5,"attempts":[1],"hints":{"stages":[1,2,3],"worth":[[1,2]]}}`+"\n"), false)
	f.Add(uint8(index["sacct"]), []byte(sacctExport), true)
	f.Add(uint8(index["sacct-json"]), []byte(sacctJSONExport), true)
	f.Add(uint8(index["pods"]), []byte(podList(podOf("p", labels("job-name", "j"), gpu1, "Failed", 0, 1, 2), podOf("q", labels("job-name", "j"), gpu1, "Running", 3, 4, -1))), true)
	f.Add(uint8(index["pods"]), []byte(podList(event("Job", "b", "SuccessfulCreate", "Created pod: b-a", 1), event("Pod", "b-a", "Started", "", 3), podOf("b-b", owner("Job", "b"), gpu1, "Succeeded", 13, 20, 50))), false)
	f.Add(uint8(index["workloads"]), []byte(sample(f, "workloads.json")), true)
	f.Add(uint8(index["workloads"]), []byte(workload("x: 1", "Admitted True Admitted 5")), false)
	f.Add(uint8(index["prometheus"]), []byte("["+series("kube_pod_created", "", "2000=1000")+","+series("kube_pod_container_resource_limits", `,"container":"c","resource":"cpu"`, "1=1")+
		","+series("kube_pod_start_time", "", "2000=1100")+","+series("kube_pod_status_phase", `,"phase":"Running"`, "1800=1 1860=1")+"]"), true)
	f.Fuzz(func(t *testing.T, which uint8, text []byte, skip bool) {
		if len(text) > 1<<16 {
			t.Skip("too long to be of use")
		}
		format := formats[int(which)%len(formats)]
		probe(t, text, trace.Options{Format: format.Name, Extra: []trace.Format{format}, SkipBad: skip, Merge: skip, GPUOnly: skip})
	})
}

// FuzzDetect does the same for files whose format is not named, packed ones
// among them.
func FuzzDetect(f *testing.F) {
	for _, s := range samples {
		f.Add([]byte(s.text))
	}
	f.Add([]byte(small))
	f.Add([]byte(sacctExport))
	f.Add([]byte(sacctJSONExport))
	f.Add([]byte("\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"))
	f.Add([]byte("\x28\xb5\x2f\xfd\x04\x00"))
	f.Add(archive(f, [2]string{"jobs.csv", small}))
	f.Add([]byte(strings.ReplaceAll(small, "\n", "\r")))
	f.Add([]byte("job,gpus,duration\n\"a,1,1\n\"b,1,1\nc\",1,1\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if len(text) > 1<<16 {
			t.Skip("too long to be of use")
		}
		probe(t, text, trace.Options{SkipBad: true, Sort: true, Load: 2, Rebase: true})
	})
}

// probe reads a trace and checks all that a Reader promises.
func probe(t *testing.T, text []byte, opt trace.Options) {
	r, err := trace.NewReader(bytes.NewReader(text), "fuzz", opt)
	if err != nil {
		if !strings.HasPrefix(err.Error(), "fuzz") {
			t.Fatalf("the error does not name the file: %v", err)
		}
		return
	}
	defer r.Close()
	var entries []trace.Entry
	last := time.Duration(0)
	for len(entries) < 5000 {
		var e trace.Entry
		err := r.Next(&e)
		if errors.Is(err, io.EOF) {
			info := r.Info()
			if got := info.Jobs + info.Folded + info.LeftOut + info.Bad + info.Filtered; got != info.Rows {
				t.Fatalf("%d rows, %d accounted for: %+v", info.Rows, got, info)
			}
			break
		}
		if err != nil {
			return
		}
		j := &e.Job
		if int(j.ID) != len(entries) || j.Submit < last || j.Demand == nil || j.Demand.Check() != nil || e.Truth.Work < 0 || e.Truth.Total() < 0 ||
			j.Deadline < 0 || j.Estimate < 0 || e.Truth.Wait < 0 || j.Submit+e.Truth.Total() < 0 {
			t.Fatalf("job %d after %v: %+v", len(entries), last, e)
		}
		last = j.Submit
		entries = append(entries, e)
	}
	again(t, entries)
}

// jsonLines is how entries are written and read again: looked up once, for a fuzzer
// does so thousands of times a second.
var jsonLines = func() trace.Format {
	f, err := trace.Named("jsonl", nil)
	if err != nil {
		panic(err)
	}
	return f
}()

// again writes entries as JSON Lines and reads them.
func again(t *testing.T, entries []trace.Entry) {
	if len(entries) == 0 {
		return
	}
	var out strings.Builder
	if _, err := trace.WriteJSON(&out, &list{entries}); err != nil {
		t.Fatal(err)
	}
	r, err := trace.NewReader(strings.NewReader(out.String()), "written", trace.Options{Format: jsonLines.Name, Extra: []trace.Format{jsonLines}})
	if err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	back, _ := drain(t, r)
	if len(back) != len(entries) {
		t.Fatalf("%d of %d jobs", len(back), len(entries))
	}
	for i := range back {
		want := entries[i]
		if *back[i].Job.Demand != *want.Job.Demand {
			t.Fatalf("job %d: %v is read as %v", i, want.Job.Demand, back[i].Job.Demand)
		}
		back[i].Job.Demand, want.Job.Demand = nil, nil
		if !reflect.DeepEqual(back[i], want) {
			t.Fatalf("job %d:\n wrote %+v %+v\n read  %+v %+v", i, want, hints(want), back[i], hints(back[i]))
		}
	}
}

func hints(e trace.Entry) job.Hints {
	if e.Job.Hints == nil {
		return job.Hints{}
	}
	return *e.Job.Hints
}
