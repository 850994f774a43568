package job

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
)

// TestReasons writes the sentence of every reason into testdata/reasons.txt.
func TestReasons(t *testing.T) {
	datadriven.RunTest(t, "testdata/reasons.txt", func(t *testing.T, d *datadriven.TestData) string {
		var out strings.Builder
		name := func(id ID) string { return fmt.Sprintf("job-%d", id) }
		for c := ReasonCode(0); c < lastReason; c++ {
			r := Reason{Code: c, Need: 8, Have: 5, Job: 3}
			if c == Because || d.Cmd == "worded" {
				r.Text = "the policy's own words"
			}
			switch d.Cmd {
			case "one":
				r.Need, r.Have = 1, 0
			case "at":
				r.At = 42 * time.Minute
			case "nobody":
				r.Job = None
			}
			if got := r.Sentence(name); d.Cmd == "many" || got != (Reason{Code: c, Need: 8, Have: 5, Job: 3}).Sentence(name) {
				fmt.Fprintf(&out, "%-16s %s\n", c, got)
			}
		}
		return out.String()
	})
}

// TestReasonCodes: every code has a name of its own that is read back.
func TestReasonCodes(t *testing.T) {
	for c := range lastReason {
		if got, ok := ParseReasonCode(c.String()); !ok || got != c {
			t.Errorf("reason %d is called %q, which is read as %d", c, c, got)
		}
	}
	if _, ok := ParseReasonCode("nonsense"); ok {
		t.Error("nonsense is a reason")
	}
	if got := lastReason.String(); got != fmt.Sprintf("reason-%d", lastReason) {
		t.Errorf("a code of a later version is called %q", got)
	}
	for _, c := range []ReasonCode{TooLarge, NoSuchType, Impossible} {
		if !(Reason{Code: c}).Never() {
			t.Errorf("%v can end by itself", c)
		}
	}
	if (Reason{Code: NeedGPUs}).Never() || (Reason{Code: NeedGPUs}).Fragmentation() || !(Reason{Code: NeedRack}).Fragmentation() {
		t.Error("waiting for GPUs is no fragmentation, waiting for a rack is")
	}
}

func TestDemandCheck(t *testing.T) {
	with := func(change func(*Demand)) Demand {
		d := GPUs(4)
		change(&d)
		return d
	}
	cases := []struct {
		d    Demand
		want string // empty: nothing is wrong
	}{
		{GPUs(4), ""},
		{GPUs(MaxTasks), ""},
		{Demand{}, "asks for 0 tasks, needs at least one"},
		{GPUs(-1), "asks for -1 tasks, needs at least one"},
		{GPUs(MaxTasks + 1), "asks for 1000001 tasks, at most 1000000 are allowed"},
		{with(func(d *Demand) { d.Roles[0].Max = MaxTasks + 1 }), "at most 1000000 are allowed"},
		{with(func(d *Demand) { d.Roles[0].Min, d.Roles[0].Max = 2, 8 }), ""},
		{with(func(d *Demand) { d.Roles[0].Min = 5 }), "runs with 5 to 4 tasks but asks for 4"},
		{with(func(d *Demand) { d.Roles[0].Max = 3 }), "runs with 4 to 3 tasks but asks for 4"},
		{with(func(d *Demand) { d.Roles[0].Min = -1 }), "runs with -1 to 4 tasks but asks for 4"},
		{with(func(d *Demand) { d.Roles[1] = Role{Name: "ps", Tasks: 2, Max: 3, CPU: 1000} }), `role "ps" is elastic; only the first role can be`},
		{with(func(d *Demand) { d.Roles[1] = Role{Name: "ps"} }), `role "ps" has no tasks`},
		{with(func(d *Demand) { d.Roles[1] = Role{Name: "ps", Tasks: 1} }), "asks for no GPU, CPU or memory"},
		{with(func(d *Demand) { d.Roles[1] = Role{Name: "ps", Tasks: -2, CPU: 1} }), "tasks"},
		{with(func(d *Demand) { d.Roles[0].GPU = -1 }), "asks for a negative amount"},
		{with(func(d *Demand) { d.Roles[0].Memory = -1 }), "asks for a negative amount"},
		{with(func(d *Demand) { d.Roles[0].GPU = 1500 }), "asks for 1.5 GPUs in one task: more than one must be a whole number"},
		{with(func(d *Demand) { d.Roles[0].GPU = 500 }), ""},
		{with(func(d *Demand) { d.Roles[0].GPU = 1_001_000 }), "asks for 1001 GPUs in one task, at most 1000 are allowed"},
		{with(func(d *Demand) { d.Roles[0].CPU = 1<<40 + 1 }), "absurd"},
		{with(func(d *Demand) { d.Roles[0].GPU, d.Roles[0].CPU = 0, 1000 }), ""},
	}
	for _, c := range cases {
		err := c.d.Check()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%+v: %v, want %q", c.d.Roles, err, c.want)
		}
	}
}

func TestDemandText(t *testing.T) {
	elastic, typed, roles := GPUs(4), GPUs(1), Demand{}
	elastic.Roles[0].Min, elastic.Roles[0].Max = 2, 8
	typed.Types = "V100|P100"
	roles.Roles[0] = Role{Name: "worker", Tasks: 2, GPU: 500, CPU: 4000, Memory: unit.GiB}
	roles.Roles[1] = Role{Name: "ps", Tasks: 1, CPU: 1000}
	for _, c := range []struct {
		d    Demand
		want string
	}{
		{GPUs(8), "8 GPUs"},
		{GPUs(1), "1 GPU"},
		{elastic, "4 GPUs (2 to 8 tasks)"},
		{typed, "1 GPU of type V100 or P100"},
		{roles, "worker: 2 x (0.5 GPU + 4 CPUs + 1GiB memory), ps: 1 CPU"},
	} {
		if got := c.d.String(); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
	if roles.GPUs() != 1 || roles.CPU() != 9000 || roles.Memory() != 2*unit.GiB || roles.Plain() || !elastic.Elastic() || typed.Plain() {
		t.Errorf("%v: %d GPUs, %v CPUs, %v", &roles, roles.GPUs(), roles.CPU(), roles.Memory())
	}
	big := GPUs(MaxTasks)
	big.Roles[0].GPU = 1000 * unit.One
	if got := big.Milli(MaxTasks); got != 1_000_000_000*unit.One || int64(got) > math.MaxInt64/4 {
		t.Errorf("the largest gang asks for %v", got)
	}
}

// TestTypeMask: the set of acceptable types, of those that the cluster has.
func TestTypeMask(t *testing.T) {
	c := cluster.New()
	for _, name := range []string{"P100", "V100"} {
		if _, err := c.AddType(cluster.GPUType{Name: name}); err != nil {
			t.Fatal(err)
		}
	}
	for _, k := range []struct {
		types string
		mask  cluster.TypeMask
		ok    bool
	}{{"", 0, true}, {"V100", 2, true}, {"V100|P100", 3, true}, {"A100 | P100", 1, true}, {"A100", 0, false}} {
		d := GPUs(1)
		d.Types = k.types
		if m, ok := d.TypeMask(c); m != k.mask || ok != k.ok {
			t.Errorf("types %q: %b %v, want %b %v", k.types, m, ok, k.mask, k.ok)
		}
	}
}

func TestNames(t *testing.T) {
	for k := Training; k <= Inference; k++ {
		if got, ok := ParseKind(strings.ToUpper(k.String())); !ok || got != k {
			t.Errorf("kind %v is read as %v", k, got)
		}
	}
	for m := Checkpoint; m <= Pinned; m++ {
		if got, ok := ParseStopMode(m.String()); !ok || got != m {
			t.Errorf("way to stop %v is read as %v", m, got)
		}
	}
	if k, ok := ParseKind(""); !ok || k != Training {
		t.Error("no kind is training")
	}
	if _, ok := ParseKind("thinking"); ok {
		t.Error("thinking is no kind")
	}
}

// TestInterner: equal demands share one.
func TestInterner(t *testing.T) {
	var in Interner
	two, again, three := in.Get(GPUs(2)), in.Get(GPUs(2)), in.Get(GPUs(3))
	if two != again || two == three {
		t.Error("equal demands are not one, or different ones are")
	}
}
