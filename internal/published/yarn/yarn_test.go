package yarn

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/internal/published/harness"
)

func TestParseSpec(t *testing.T) {
	file := filepath.Join(t.TempDir(), "c.csv")
	text := "num_switch,num_node_p_switch,num_gpu_p_node,num_cpu_p_node,mem_p_node\n2,4,8,96,512\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		want Spec
	}{{"n4g8", Spec{1, 4, 8, 128, 256}}, {"n32g4", Spec{1, 32, 4, 128, 256}}, {file, Spec{2, 4, 8, 96, 512}}} {
		got, err := ParseSpec(c.name, 128, 256)
		if err != nil || got != c.want {
			t.Errorf("%s: %+v, %v, want %+v", c.name, got, err, c.want)
		}
	}
	for _, bad := range []string{"", "n4", "g8", "n4g", "4g8", "n0g8", "n1000000g8", "hetero", "none.csv"} {
		if _, err := ParseSpec(bad, 128, 256); err == nil || !strings.Contains(err.Error(), bad) {
			t.Errorf("%q: error %v", bad, err)
		}
	}
}

func FuzzParseSpec(f *testing.F) {
	f.Add("n4g8")
	f.Add("n99999999999g1")
	f.Fuzz(func(t *testing.T, name string) {
		if strings.HasSuffix(name, ".csv") || strings.HasSuffix(name, ".txt") || strings.HasSuffix(name, ".gz") {
			return
		}
		if s, err := ParseSpec(name, 128, 256); err == nil && (s.Total() < 1 || s.Total() > maxGPUs) {
			t.Errorf("%q has %d GPUs", name, s.Total())
		}
	})
}

func FuzzSpecOf(f *testing.F) {
	const head = "num_switch,num_node_p_switch,num_gpu_p_node,num_cpu_p_node,mem_p_node\n"
	f.Add(head + "1,4,4,128,256\n")
	f.Add(head + "1000000,1000000,1000000,1,1\n2,2,2,2,2\n")
	f.Add(head)
	f.Fuzz(func(t *testing.T, text string) {
		table, err := harness.NewTable("c.csv", text)
		if err != nil {
			return
		}
		if s, err := specOf(table); err == nil && (s.Total() < 1 || s.Total() > maxGPUs || s.CPUs < 1 || s.Memory < 1) {
			t.Errorf("%+v", s)
		}
	})
}

// place places jobs one after the other and tells for each whether it had room.
func place(p *Packing, gpus ...int) string {
	out := ""
	for i, g := range gpus {
		if p.Place(int32(i), g) {
			out += "y"
		} else {
			out += "n"
		}
	}
	return out
}

func TestPacking(t *testing.T) {
	for _, c := range []struct {
		name string
		spec Spec
		jobs []int
		want string
	}{
		{"a small job keeps to one node", Spec{1, 2, 4, 128, 256}, []int{3, 3, 2, 1, 1, 1}, "yynyyn"},
		{"one GPU takes 2 CPUs", Spec{1, 1, 8, 6, 256}, []int{1, 1, 1, 1}, "yyyn"},
		{"several take 6 each", Spec{1, 1, 8, 18, 256}, []int{2, 1, 1, 1, 1}, "yyyyn"},
		{"any small job takes 5 GB", Spec{1, 1, 8, 128, 14}, []int{2, 2, 1}, "yyn"},
		{"a large job takes whole nodes and a part of another", Spec{1, 3, 4, 128, 256}, []int{10, 2, 1}, "yyn"},
		{"its part may come before its whole nodes", Spec{1, 3, 4, 128, 256}, []int{2, 10}, "yy"},
		{"it takes 11 GB and 0.1 for each GPU, for each GPU", Spec{1, 2, 4, 128, 47}, []int{8}, "n"},
		{"48 GB are enough", Spec{1, 2, 4, 128, 48}, []int{8}, "y"},
		{"a job keeps to one switch", Spec{2, 1, 4, 128, 256}, []int{8, 4, 4}, "nyy"},
		{"the second switch is tried", Spec{2, 2, 4, 128, 256}, []int{2, 8, 4, 2}, "yyyy"},
	} {
		if got := place(New(c.spec), c.jobs...); got != c.want {
			t.Errorf("%s: %v on %+v: %s, want %s", c.name, c.jobs, c.spec, got, c.want)
		}
	}
}

func TestRelease(t *testing.T) {
	p := New(Spec{1, 3, 4, 30, 100})
	before := p.nodes[0]
	if got := place(p, 10, 2, 4); got != "yyn" {
		t.Fatalf("placed %s", got)
	}
	if p.Free() != 0 {
		t.Errorf("%d GPUs are free, want 0", p.Free())
	}
	p.Release(0)
	p.Release(1)
	for i := range p.nodes {
		if p.nodes[i] != before {
			t.Errorf("node %d has %+v after all have left, had %+v", i, p.nodes[i], before)
		}
	}
	p.Fit(4)
	if p.Empty(); p.Free() != 12 {
		t.Errorf("%d GPUs are free in an empty cluster of 12", p.Free())
	}
}

func TestPooled(t *testing.T) {
	c, err := Spec{2, 3, 4, 1, 1}.Pooled()
	if err != nil || c.TotalGPUs(0, 0) != 24 {
		t.Fatalf("%v, %v", c, err)
	}
	var h Holdings
	for _, gpus := range []int{24, 1, 7} {
		if a := h.Of(gpus); int(a.Milli()) != 1000*gpus || a.Tasks(0) != gpus {
			t.Errorf("a job of %d GPUs holds %v", gpus, a)
		}
	}
	if err := c.Allocate(h.Of(24)); err != nil {
		t.Error(err)
	}
	if err := c.Allocate(h.Of(1)); err == nil {
		t.Error("a full cluster has room")
	}
}
