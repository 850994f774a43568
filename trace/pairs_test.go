package trace_test

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/internal/shared"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/trace"
)

// written is a file with a content.
func written(t testing.TB, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

func beside(p *trace.Pairs, j, other *job.Job, typ string) float64 {
	return p.Table.Beside(j, []*job.Job{other}, cluster.GPUType{Name: typ})
}

// Norn's own table: by model, in each direction, on one type or on all.
func TestOwnPairs(t *testing.T) {
	p, err := trace.ReadPairs(written(t, "pairs.csv", "model,beside,type,speed\na,b,,0.8\nb,a,V100,0.6\nb,a,,0.7\na,a,,1.04\n"))
	if err != nil {
		t.Fatal(err)
	}
	a, b, c := &job.Job{Model: "a"}, &job.Job{Model: "b", Batch: 64}, &job.Job{Model: "c"}
	for _, k := range []struct {
		j, other *job.Job
		typ      string
		want     float64
	}{{a, b, "V100", 0.8}, {b, a, "V100", 0.6}, {b, a, "A100", 0.7}, {a, a, "", 1}, {a, c, "", 1}} {
		if got := beside(p, k.j, k.other, k.typ); got != k.want {
			t.Errorf("%s beside %s on %s: %v, not %v", k.j.Model, k.other.Model, k.typ, got, k.want)
		}
	}
	if len(p.Models) != 2 {
		t.Errorf("%+v", p.Models)
	}
}

// Tables that are none, and lines that are wrong, are told with file and line.
func TestBadPairs(t *testing.T) {
	for content, want := range map[string]string{
		"":                           "is empty",
		"a,b\n1,2\n":                 "neither the columns model, beside, speed",
		"model,beside,speed\n":       "has no pairs",
		"model,beside,speed\na,b,0":  `line 2: speed "0": write a number above 0`,
		"model,beside,speed\na,b,x":  `line 2: speed "x"`,
		"model,beside,speed\n,b,1":   "line 2: has no model",
		"model,beside,speed\na,b\n":  "wrong number of fields",
		`{"v100": {"x": {}}}`:        `"x" is not a job type and a number of GPUs`,
		`{"v100": {"('a', 1)": {}}}`: `v100, "('a', 1)": the speed alone`,
		`{"v100": {"('a', 1)": {"null": 2, "('b', 1)": [1]}}}`: `beside "('b', 1)": want two speeds`,
		"model1,speed1,model2,speed2\na,1,b,1\n":               `line 2: batchsize1 "" is not a number`,
	} {
		path := written(t, "pairs", content)
		if _, err := trace.ReadPairs(path); err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), path) {
			t.Errorf("%q: %v, want %s", content, err, want)
		}
	}
	if _, err := trace.ReadPairs("nowhere.csv"); err == nil {
		t.Error("a file that is not there was read")
	}
}

// The published table of Lucid: configurations apart, with what they use alone.
func TestLucidPairsAreRead(t *testing.T) {
	p, err := trace.ReadPairs(shared.Path(t, "data/lucid/colocate_info.csv"))
	if err != nil {
		t.Fatal(err)
	}
	net := &job.Job{Model: "MobileNetV3", Dataset: "ImageNet", Batch: 32}
	res := &job.Job{Model: "ResNet18", Dataset: "CIFAR-10", Batch: 32}
	mixed := *res
	mixed.Hints = &job.Hints{Mixed: true}
	if a, b, c := beside(p, net, res, ""), beside(p, res, net, ""), beside(p, &mixed, net, ""); a != 0.983 || b != 1 || c != 0.97 {
		t.Errorf("%v, %v and %v; the file says 0.983, 1.034 and 0.97", a, b, c)
	}
	for _, m := range p.Models {
		if m.Model == "MobileNetV3" && m.Dataset == "ImageNet" && m.Batch == 32 && !m.Mixed {
			if m.GPUUse <= 0.3 || m.GPUUse >= 0.6 || m.GPUMemory/unit.MiB != 2694 {
				t.Errorf("%+v", m)
			}
			return
		}
	}
	t.Errorf("%d models without MobileNetV3", len(p.Models))
}

// The published table of Gavel: factors are speeds beside over speeds alone, by type.
func TestGavelPairsAreRead(t *testing.T) {
	p, err := trace.ReadPairs(shared.Path(t, "data/gavel/simulation_throughputs.json.gz"))
	if err != nil {
		t.Fatal(err)
	}
	// Steps per second of A3C alone, and beside itself, from the file.
	a3c := &job.Job{Model: "A3C"}
	v, k := beside(p, a3c, a3c, "V100"), beside(p, a3c, a3c, "k80")
	if !(v > 0.3 && v <= 1 && k > 0.3 && k <= 1) || math.Abs(v-k) < 1e-9 {
		t.Errorf("%v on V100, %v on K80", v, k)
	}
	if len(p.Models) < 20 {
		t.Errorf("%d models", len(p.Models))
	}
}

// FuzzPairs reads anything as a table of pairs: nothing panics, and what comes out is a
// table of factors.
func FuzzPairs(f *testing.F) {
	f.Add("model,beside,speed\na,b,0.5\n")
	f.Add("model1,dataset1,batchsize1,amp1,speed1,model2,dataset2,batchsize2,amp2,speed2\nA,x,1,0,0.5,B,y,2,1,1.2\n")
	f.Add(`{"v100": {"('a', 1)": {"null": 2, "('b', 1)": [1, 1]}}}`)
	f.Fuzz(func(t *testing.T, content string) {
		p, err := trace.ParsePairs([]byte(content))
		if err != nil {
			return
		}
		if err := p.Table.Check(); err != nil || len(p.Models) == 0 {
			t.Errorf("%v, %d models", err, len(p.Models))
		}
	})
}
