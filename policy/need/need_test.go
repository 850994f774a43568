package need_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/policy/need"
)

// TestLacks says what is told of needs that are not met.
func TestLacks(t *testing.T) {
	elastic := need.Need{Any: need.Of(need.Elastic), Without: "it acts as srtf", Given: need.Of(need.RunTimes)}
	timed := need.Need{Any: need.Of(need.RunTimes), Without: "jobs go by submission"}
	use := need.List(nil).And(need.Of(need.Use), "nobody shares").And(need.Of(need.Memory), "nobody shares")
	either := need.List(nil).And(need.Of(need.Types, need.Processors), "nothing is matched")
	for name, c := range map[string]struct {
		needs need.List
		facts need.Set
		want  []string
	}{
		"all is there":          {need.List{elastic, timed}, need.Of(need.Elastic, need.RunTimes), nil},
		"one is missing":        {need.List{elastic, timed}, need.Of(need.RunTimes), []string{"no job is elastic; it acts as srtf. --assume goodput"}},
		"the clause is void":    {need.List{elastic}, 0, []string{"no job is elastic. --assume goodput"}},
		"two of one sort":       {use, 0, []string{"no job tells how busy it keeps its GPUs and no job tells how much GPU memory it takes; nobody shares. --assume use"}},
		"the first is there":    {use, need.Of(need.Use), []string{"no job tells how much GPU memory it takes; nobody shares. --assume use"}},
		"the second is there":   {use, need.Of(need.Memory), []string{"no job tells how busy it keeps its GPUs; nobody shares. --assume use"}},
		"one of two suffices":   {either, need.Of(need.Processors), nil},
		"neither of two":        {either, need.Of(need.Use), []string{"no job is faster on one GPU type than on another and no job can run on processors here; nothing is matched. --cluster with several types, --speeds, or host slots in the cluster file, cpu_est in the trace"}},
		"several":               {need.List{timed, elastic}, 0, []string{"no run time is estimated; jobs go by submission. --estimates oracle, user or history", "no job is elastic. --assume goodput"}},
		"a policy needs naught": {nil, 0, nil},
	} {
		var got []string
		for _, l := range c.needs.Lacks(c.facts) {
			got = append(got, l.String())
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestTexts: every thing has a name, a text where it is missing, and a way to get it; no
// two have the same name.
func TestTexts(t *testing.T) {
	seen := map[string]bool{}
	for _, thing := range need.All() {
		one := need.List(nil).And(need.Of(thing), "x").Lacks(0)
		if thing.String() == "" || seen[thing.String()] || len(one) != 1 || strings.HasPrefix(one[0].Text, ";") || need.Of(thing).Get() == "" {
			t.Errorf("thing %d: %q, %q", thing, thing.String(), one)
		}
		seen[thing.String()] = true
	}
}

// TestList looks needs up.
func TestList(t *testing.T) {
	l := need.List(nil).And(need.Of(need.Tenants, need.Users), "a").If(false, need.Of(need.Stages), "b").If(true, need.Of(need.Use), "c")
	if !l.Has(need.Users) || !l.Has(need.Use) || l.Has(need.Stages) {
		t.Errorf("%v", l)
	}
	if got, want := l.Names(), []string{"several tenants or several users", "use of GPUs by each job"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
