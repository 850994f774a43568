package trace

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/perf"
)

const socketsText = `{"solo":{"alexnet":{"1":{"num_gpus":{"1":{"intra-socket":69.165,"inter-socket":0},"2":{"intra-socket":127.415,"inter-socket":159.115}}}}},
"collocation":{"alexnet":{"1":{"num_gpus":{"1":{"alexnet":{"1":{"num_gpus":{"1":75.5,"2":0}}}}}}}}}`

// TestParseSockets reads run times, and says which are wrong.
func TestParseSockets(t *testing.T) {
	s, err := ParseSockets([]byte(socketsText))
	if err != nil {
		t.Fatal(err)
	}
	one, two := perf.Sized{Model: "alexnet", Batch: 1, GPUs: 1}, perf.Sized{Model: "alexnet", Batch: 1, GPUs: 2}
	if s.Solo(two, true) != 159.115 || s.Solo(two, false) != 127.415 || s.Solo(one, true) != 69.165 || s.With(one, one) != 75.5 || s.With(one, two) != 0 || s.Len() != 2 {
		t.Errorf("%+v", s)
	}
	for text, want := range map[string]string{
		"": "no run times on sockets", "{}": "has no run times of jobs alone", `{"solo":{"a":{"x":{}}}}`: `a: the batch size "x"`,
		`{"solo":{"a":{"1":{"num_gpus":{"0":{}}}}}}`:                                     `num_gpus "0"`,
		`{"solo":{"a":{"1":{"num_gpus":{"1":{"intra-socket":-1}}}}}}`:                    "a, batch size 1, 1 GPUs: -1",
		`{"solo":{"a":{"1":{"num_gpus":{"1":{"intra-socket":1e300}}}}}}`:                 "no run time",
		strings.Replace(socketsText, "75.5", "-75.5", 1):                                 "-75.5 is no run time",
		strings.Replace(socketsText, `"alexnet":{"1":{"num_gpus":{"1":75.5`, `"b":[`, 1): "no run times on sockets",
	} {
		if _, err := ParseSockets([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// readTopologyAware reads jobs with the run times of socketsText.
func readTopologyAware(t testing.TB, text, measured string) (jobs []Entry, err error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "profile.json")
	if err := os.WriteFile(path, []byte(measured), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := NewReader(strings.NewReader(text), "jobs.json", Options{Format: "topology-aware", Profile: path, Sort: true})
	if err != nil {
		return nil, err
	}
	defer r.Close()
	for {
		var e Entry
		if err := r.Next(&e); errors.Is(err, io.EOF) {
			return jobs, nil
		} else if err != nil {
			return jobs, err
		}
		jobs = append(jobs, e)
	}
}

// TestTopologyAware reads the authors' jobs, the run times of which are in another file, and tells of those that
// were not measured.
func TestTopologyAware(t *testing.T) {
	const text = `{"10":{"arrival":9,"gpus":2,"id":10,"minimal_utility":0.4,"size":"1","type":"alexnet","color":"#1"},"2":{"arrival":7.5,"gpus":1,"id":2,"minimal_utility":0,"size":"1","type":"alexnet"}}`
	jobs, err := readTopologyAware(t, text, socketsText)
	if len(jobs) != 2 || err != nil {
		t.Fatalf("%d jobs, %v", len(jobs), err)
	}
	if j := jobs[1]; j.Job.Key != "10" || j.Job.Model != "alexnet" || j.Job.Batch != 1 || j.Job.Demand.GPUs() != 2 || j.Job.Hints.LeastUtility != 0.4 || j.Truth.Work != 127415*time.Millisecond || j.Job.Submit != 9*time.Second {
		t.Errorf("%+v, %+v", j.Job, j.Truth)
	}
	if jobs[0].Job.Key != "2" || jobs[0].Job.Submit != 7500*time.Millisecond {
		t.Errorf("%+v", jobs[0].Job)
	}
	for change, want := range map[string]string{
		`"gpus":2`: "from 1 to 1024 GPUs", `"arrival":9`: "an arrival in seconds", `"size":"1","type":"alexnet","color"`: "a batch size", `"minimal_utility":0.4`: "a minimal_utility from 0 to 1", `"type":"alexnet","color"`: "a job that was measured",
	} {
		to := map[string]string{`"gpus":2`: `"gpus":0`, `"arrival":9`: `"arrival":-9`, `"minimal_utility":0.4`: `"minimal_utility":4`, `"type":"alexnet","color"`: `"type":"vgg","color"`, `"size":"1","type":"alexnet","color"`: `"size":"x","type":"alexnet","color"`}[change]
		if _, err := readTopologyAware(t, strings.Replace(text, change, to, 1), socketsText); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", to, err, want)
		}
	}
	if _, err := NewReader(strings.NewReader(text), "jobs.json", Options{}); err == nil || !strings.Contains(err.Error(), "--profile") {
		t.Errorf("without run times: %v", err)
	}
	if jobs, err := readTopologyAware(t, text[:len(text)-30], socketsText); err == nil || len(jobs) > 1 {
		t.Errorf("cut off: %d jobs, %v", len(jobs), err)
	}
}

// FuzzTopologyAware reads anything as jobs and as run times: nothing panics, and what is read makes sense.
func FuzzTopologyAware(f *testing.F) {
	f.Add(`{"1":{"arrival":7,"gpus":1,"id":0,"minimal_utility":0.4,"size":"1","type":"alexnet"}}`, socketsText)
	f.Add(`{"1":{"arrival":1e300,"gpus":1e9},"2":[]}`, `{"solo":{}}`)
	f.Fuzz(func(t *testing.T, jobs, measured string) {
		if len(jobs)+len(measured) > 1<<14 {
			t.Skip("too long to be of use")
		}
		all, _ := readTopologyAware(t, jobs, measured)
		for _, e := range all {
			if e.Truth.Work <= 0 || e.Truth.Work > century || e.Job.Submit < 0 || e.Job.Demand.GPUs() < 1 {
				t.Fatalf("%+v, %+v", e.Job, e.Truth)
			}
		}
	})
}
