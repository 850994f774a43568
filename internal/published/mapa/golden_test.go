package mapa

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/cluster/fabric"
	"github.com/norn-scheduler/norn/internal/shared"
	"github.com/norn-scheduler/norn/policy/mapa"
)

// TestGolden: every line of the published runs is the same, digit by digit: start and end, scores, and
// the GPUs in their order.
func TestGolden(t *testing.T) {
	trace := shared.Path(t, "golden/inputs/mapa_jobs100.txt.gz")
	for _, machine := range []string{"dgx-v", "summit"} {
		for _, policy := range []string{"baseline", "topoAware", "greedy", "preserve"} {
			text, err := os.ReadFile(shared.Path(t, "golden/mapa/jobs100-"+machine+"-"+policy+".csv"))
			if err != nil {
				t.Fatal(err)
			}
			want := strings.Split(strings.TrimSpace(string(text)), "\n")
			r, err := Run(t.Context(), trace, machine, policy)
			if err != nil {
				t.Fatal(err)
			}
			got := []string{strings.Join(r.Columns, ",")}
			for i := range r.Rows {
				got = append(got, string(r.Append(nil, &r.Rows[i])))
			}
			for i := range want {
				if i >= len(got) || got[i] != strings.TrimSpace(want[i]) {
					t.Errorf("%s, %s: %d lines, want %d; line %d is not %s", machine, policy, len(got), len(want), i+1, want[i])
					break
				}
			}
			if len(want) != 101 {
				t.Errorf("%s, %s: %d lines", machine, policy, len(want))
			}
		}
	}
}

// play runs a trace and tells when each job starts, and on which GPUs.
func play(t *testing.T, machine, policy, trace string) string {
	t.Helper()
	m, err := findMachine(machine)
	if err != nil {
		t.Fatal(err)
	}
	p, err := Find(policy)
	if err != nil {
		t.Fatal(err)
	}
	w, err := readText("t.txt", trace)
	if err != nil {
		t.Fatal(err)
	}
	r, err := p.run(context.Background(), m, w)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for i := range r.Rows {
		f := strings.Split(string(r.Append(nil, &r.Rows[i])), ",")
		out = append(out, f[0]+"@"+f[2]+":"+f[10])
	}
	return strings.Join(out, " ")
}

// TestQuirks: what the code does that the paper does not say.
func TestQuirks(t *testing.T) {
	const ring3, pair = "3,ring,0,10,1,x\n", "2,ring,0,10,1,x\n"
	for _, c := range []struct{ name, machine, policy, trace, want string }{
		{"the next one is overlooked", "summit", "baseline", ring3 + "2,ring,0,10,0,x\n1,ring,0,10,0,x\n", "0@0:1+2+3 1@1:5+6 2@0:4"},
		{"a sensitive pair without NVLink waits", "summit", "preserve", "2,ring,0,5,1,x\n" + pair + "2,ring,0,9,1,x\n", "0@0:1+2 1@5:1+2 2@0:4+5"},
		{"one that leaves nothing waits", "dgx-v", "preserve", "7,ring,0,5,0,x\n1,ring,0,9,0,x\n", "0@0:1+4+3+2+6+7+5 1@5:1"},
		{"a perfect pair", "dgx-v", "minScore", pair, "0@0:1+4"},
		{"the best prediction of five is not perfect", "dgx-v", "minScore", "5,ring,0,5,1,x\n", ""},
		{"a group is never filled", "summit", "topoAware", "3,ring,0,9,1,x\n", "0@0:1+2+3"},
		{"the first order", "dgx-v", "topoAware", ring3, "0@0:1+2+3"},
		{"all are there at the start", "dgx-v", "greedy", "2,ring,500,10,1,x\n", "0@0:1+4"},
		{"no time, no end", "dgx-v", "greedy", "8,ring,0,0,1,x\n2,ring,0,5,1,x\n", ""},
		{"a star has no links", "dgx-v", "greedy", "3,star,0,5,1,x\n", ""},
	} {
		if got := play(t, c.machine, c.policy, c.trace); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// TestPolicy: on machines that are partly taken, the policy of Norn chooses sets that are as good as those
// of the published code, which looks at every order of every set.
func TestPolicy(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom([]string{"dgx-v", "dgx-p", "summit"}).Draw(t, "machine")
		m, err := findMachine(name)
		if err != nil {
			t.Fatal(err)
		}
		busy := make([]bool, m.n)
		var free fabric.Set
		for g := range busy {
			if busy[g] = rapid.IntRange(0, 2).Draw(t, "busy") == 0; !busy[g] {
				free |= 1 << g
			}
		}
		if free == 0 {
			return
		}
		one := &task{gpus: rapid.IntRange(1, min(5, free.Len())).Draw(t, "GPUs"), pattern: "ring", sensitive: rapid.Bool().Draw(t, "sensitive")}
		q := mapa.Query{Free: free, Among: free, GPUs: one.gpus, Sensitive: one.sensitive}
		published, worth := greedy, func(c *candidate) int { return c.aggregate }
		if q.Rule = rapid.SampledFrom([]mapa.Rule{mapa.Greedy, mapa.Preserve}).Draw(t, "rule"); q.Rule == mapa.Preserve {
			published, worth = preserve, func(c *candidate) int {
				if one.sensitive && one.gpus > 1 {
					return int(1e6 * c.predicted())
				}
				return 10_000*c.preserved + c.aggregate
			}
		}
		all := m.candidates(busy, one)
		set := mapa.Choose(fabric.New(m.links), &q)
		mine := 0
		for i := range all {
			var s fabric.Set
			for _, g := range all[i].gpus {
				s |= 1 << g
			}
			if s == set {
				mine = max(mine, worth(&all[i]))
			}
		}
		if want := published(m, all, one); want != nil && mine != worth(want) {
			t.Fatalf("%b of %b is worth %d, the code's %v %d", set, free, mine, want.gpus, worth(want))
		}
	})
}

// TestTorus: the torus of the code lacks a link, and machines of 16 GPUs do as well.
func TestTorus(t *testing.T) {
	if got := play(t, "torus-2d", "preserve", "2,ring,0,5,1,x\n3,ring,0,5,0,x\n"); got != "0@0:1+2 1@1:3+4+16" {
		t.Error(got)
	}
}

// TestReadErrors: a line that is no job is refused with its number.
func TestReadErrors(t *testing.T) {
	good := "3,ring,17,11,1,x"
	for line, want := range map[string]string{
		"3,ring,17": "3 fields", "0,ring,0,1,1,x": `"0" is not a number of GPUs`, "99,ring,0,1,1,x": `"99" is not a number of GPUs`, "2,tree,0,1,1,x": `pattern "tree"`,
		"2,ring,0,-1,1,x": `"-1" is not a number of seconds`, "2,ring,0,1,yes,x": `sensitive is "yes"`, "": "1 fields",
	} {
		if _, err := readText("t.txt", good+"\n"+line+"\n"+good); err == nil || !strings.Contains(err.Error(), "t.txt, line 2: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %s", line, err, want)
		}
	}
}

// TestTooMany: what would take all memory is refused, and what is too large for the machine waits for ever.
func TestTooMany(t *testing.T) {
	m, err := findMachine("torus-2d")
	if err != nil {
		t.Fatal(err)
	}
	w, err := readText("t.txt", "5,ring,0,1,1,x\n6,ring,0,1,1,x\n")
	if err != nil {
		t.Fatal(err)
	}
	if err := w.check(m); err == nil || !strings.Contains(err.Error(), "job 1: there are more than 1000000 orders of 6 of 16 GPUs") {
		t.Errorf("error %v", err)
	}
	if got := play(t, "dgx-v", "greedy", "2,ring,0,9,1,x\n9,ring,0,5,1,x\n16,ring,0,5,1,x\n"); got != "0@0:1+4" {
		t.Error(got)
	}
}

func FuzzRead(f *testing.F) {
	f.Add("3,ring,17,11,1,x\n")
	f.Add("2,star,,1,0,\n5,clique,1,2,1,a")
	f.Fuzz(func(t *testing.T, text string) {
		w, err := readText("t.txt", text)
		if err == nil && (len(w.tasks) != len(w.jobs) || slices.ContainsFunc(w.tasks, func(t task) bool { return t.gpus < 1 || t.gpus > 16 })) {
			t.Errorf("%+v", w)
		}
	})
}
