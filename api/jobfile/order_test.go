package jobfile

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/api"
)

// Jobs of one file wait for each other by name, whatever their order there.
func TestInOrder(t *testing.T) {
	specs, err := Parse("pipeline.yaml", []byte(`
name: report
after: [eval, "train:any", 17]
command: [./report]
---
name: eval
after: train
command: [./eval]
---
name: train
after: prepare
array: 1-3
command: [./train]
---
name: prepare
command: [./prepare]
---
name: eval
after: {job: train, failed: true}
command: [./other]
`), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	order, err := InOrder(specs)
	if want := []int{3, 2, 1, 4, 0}; err != nil || !slices.Equal(order, want) {
		t.Errorf("%v, %v; want %v", order, err, want)
	}
	numbers := map[string][]string{"train": {"21"}, "eval": {"22", "23"}}
	got := Numbered(specs[0].After, numbers)
	if want := []api.After{{Job: "22"}, {Job: "23"}, {Job: "21", Any: true}, {Job: "17"}}; !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := Numbered(specs[4].After, numbers); !slices.Equal(got, []api.After{{Job: "21", Failed: true}}) {
		t.Errorf("%+v", got)
	}
}

// What cannot be an order is an error that names the jobs.
func TestNoOrder(t *testing.T) {
	for text, want := range map[string]string{
		"a:a":         "job a waits for itself",
		"a:b b:c c:b": "jobs wait for each other, and none could start: b waits for c waits for b",
		"a:b":         `job a waits for "b": that is no number, and none of the jobs that are submitted with it has this name`,
		"a:17_3":      "",
		"a:team/b":    "",
	} {
		var specs []api.JobSpec
		for _, f := range strings.Fields(text) {
			name, after, _ := strings.Cut(f, ":")
			specs = append(specs, api.JobSpec{Name: name, After: []api.After{{Job: after}}})
		}
		_, err := InOrder(specs)
		if got := fmt.Sprint(err); got != want && (err != nil || want != "") {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

// In random graphs without circles each job comes once, behind all that it waits for, and those
// that wait for nobody keep their order.
func TestOrderProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 12).Draw(t, "jobs")
		rank := rapid.SliceOfN(rapid.Int(), n, n).Draw(t, "rank")
		specs := make([]api.JobSpec, n)
		for i := range specs {
			specs[i].Name = fmt.Sprint("job-", i)
			for k := range specs {
				if rank[k] < rank[i] && rapid.IntRange(0, 3).Draw(t, "waits") == 0 {
					specs[i].After = append(specs[i].After, api.After{Job: fmt.Sprint("job-", k)})
				}
			}
		}
		order, err := InOrder(specs)
		if err != nil {
			t.Fatal(err)
		}
		at := map[string]int{}
		for place, i := range order {
			for _, a := range specs[i].After {
				if _, before := at[a.Job]; !before {
					t.Fatalf("%s comes before %s, for which it waits: %v", specs[i].Name, a.Job, order)
				}
			}
			at[specs[i].Name] = place
		}
		if len(at) != n || len(order) != n {
			t.Fatalf("%v are not all of %d jobs once", order, n)
		}
		if !slices.ContainsFunc(specs, func(s api.JobSpec) bool { return len(s.After) > 0 }) && !slices.IsSorted(order) {
			t.Fatalf("%v: nobody waits", order)
		}
	})
}
