package lucid

import (
	"fmt"
	"maps"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf/predict"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim/simtest"
)

// Section 3.5.3: names of few differences come together, under one of them; those that begin
// with other letters do not, nor the most frequent ones.
func TestBuckets(t *testing.T) {
	seen := map[string]int{"bert-base": 50, "": 9}
	for _, name := range strings.Fields("train-resnet-a train-resnet-b train-resnet-cc tune-gpt-large tune-gpt-larger tune-gpt-large-x brain-resnet-a bert-bas") {
		seen[name] = 1
	}
	of := grouping{usual: 1, most: 200}.buckets(seen)
	groups := map[string][]string{}
	for _, name := range slices.Sorted(maps.Keys(of)) {
		groups[of[name]] = append(groups[of[name]], name)
	}
	var got []string
	for _, g := range slices.Sorted(maps.Keys(groups)) {
		got = append(got, strings.Join(groups[g], " "))
	}
	slices.Sort(got)
	want := []string{"", "bert-bas", "bert-base", "brain-resnet-a", "train-resnet-a train-resnet-b train-resnet-cc", "tune-gpt-large tune-gpt-large-x tune-gpt-larger"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := nearest("train-resnet-d", of); got != of["train-resnet-a"] {
		t.Errorf("a new name is put with %q", got)
	}
	if got := nearest("t", of); got != "" {
		t.Errorf("a name like none is put with %q", got)
	}
}

// Of points in groups that are far apart the exemplars are those for which the sum of how
// alike each is to its own, and how much exemplars like to be some, is largest, as found by trying all.
func TestExemplars(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var at []float64
		for g := range rapid.IntRange(2, 3).Draw(t, "groups") {
			for range rapid.IntRange(2, 4).Draw(t, "members") {
				at = append(at, float64(100*g)+rapid.Float64Range(0, 5).Draw(t, "at"))
			}
		}
		n := len(at)
		s := square(n)
		for i := range s {
			for k := range s {
				s[i][k] = -math.Abs(at[i]-at[k]) - tie*float64(k)/float64(n)
			}
		}
		of := propagate(s) // which sets the diagonal
		net := func(is func(k int) bool) float64 {
			sum := 0.0
			for i := range s {
				best := math.Inf(-1)
				for k := range s {
					if is(k) && (k == i || !is(i)) {
						best = max(best, s[i][k])
					}
				}
				sum += best
			}
			return sum
		}
		most := math.Inf(-1)
		for set := uint(1); set < 1<<n; set++ {
			if bits.OnesCount(set) > 0 {
				most = max(most, net(func(k int) bool { return set>>k&1 != 0 }))
			}
		}
		if got := net(func(k int) bool { return of[k] == k }); got < most-tie*float64(n) {
			t.Fatalf("%v: exemplars %v come to %v, the best to %v", at, of, got, most)
		}
		for i, k := range of {
			if of[k] != k || math.Abs(at[i]-at[k]) > 50 {
				t.Fatalf("%v: exemplars %v", at, of)
			}
		}
	})
}

// A job whose name was never seen is predicted by the names that are like it.
func TestAlike(t *testing.T) {
	predicted := func(names Names, name string) float64 {
		var jobs []simtest.Job
		for i := range 80 {
			k := i % 8
			sort, run := fmt.Sprintf("resnet-imagenet-%c", 'a'+k), 60.0
			if k > 3 {
				sort, run = fmt.Sprintf("ranking-model-%c", 'a'+k), 3000
			}
			jobs = append(jobs, simtest.Job{Key: "j" + strconv.Itoa(i), At: float64(i * 100), GPUs: 1, Run: run, User: "u", Spec: func(j *job.Job) { j.Name = sort }})
		}
		var p *policy
		cfg := simtest.Config{Cluster: simtest.Nodes(8, 8), Shared: true, Estimator: predict.None{}, Make: func() (sched.Policy, error) {
			c := NewConfig()
			c.Refresh, c.Names = 15_000*time.Second, names
			made, err := c.Policy()
			p, _ = made.(*policy)
			return made, err
		}}
		simtest.Go(t, cfg, append(jobs, simtest.Job{Key: "later", At: 20_000, GPUs: 1, Run: 1, User: "u"})...)
		d := job.GPUs(1)
		return p.estimator.seconds(&job.Job{User: "u", Name: name, Demand: &d})
	}
	if short, long := predicted(Alike, "resnet-imagenet-z9"), predicted(Alike, "ranking-model-z9"); short > 120 || long < 1500 {
		t.Errorf("by names that are alike: %v and %v s", short, long)
	}
	if short, long := predicted(Plain, "resnet-imagenet-z9"), predicted(Plain, "ranking-model-z9"); short != long {
		t.Errorf("names that were never seen: %v and %v s", short, long)
	}
}
