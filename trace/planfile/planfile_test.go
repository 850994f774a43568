package planfile

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/internal/shared"
	"github.com/norn-scheduler/norn/perf/parallel"
)

// halves are the rows of odd and of even number of vTrain's iterations on one node.
func halves(t *testing.T) (odd, even []parallel.Measured) {
	all, err := ReadMeasured(shared.Path(t, "data/vtrain/ground_truth_single.csv"))
	if err != nil {
		t.Fatal(err)
	}
	for i, m := range all {
		if i%2 == 0 {
			odd = append(odd, m)
		} else {
			even = append(even, m)
		}
	}
	return odd, even
}

// TestPublished holds the profile of the A100, which was fitted to the odd rows, against
// the even ones and against iterations on 64 to 512 GPUs, which were trained with
// recomputation as vTrain's configurations of them say.
func TestPublished(t *testing.T) {
	p, err := Open("A100")
	if err != nil {
		t.Fatal(err)
	}
	_, even := halves(t)
	multi, err := ReadMeasured(shared.Path(t, "data/vtrain/ground_truth_multi.csv"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range multi {
		multi[i].Plan.Recompute = true
	}
	for _, c := range []struct {
		name       string
		rows       []parallel.Measured
		count      int
		mean, rank float64
	}{{"one node", even, 720, .01, .99}, {"many nodes", multi, 109, .15, .95}} {
		a, err := p.Accuracy(c.rows)
		if err != nil || a.Rows != c.count || !(a.Mean <= c.mean) || !(a.Rank >= c.rank) {
			t.Errorf("%s: %+v, %v; want %d rows, a mean error of at most %v and a rank correlation of at least %v", c.name, a, err, c.count, c.mean, c.rank)
		}
	}
}

// TestFitted makes the profile of the A100 again and finds the one of the program.
func TestFitted(t *testing.T) {
	odd, _ := halves(t)
	want, err := Open("a100")
	if err != nil {
		t.Fatal(err)
	}
	p := *want
	p.Network.Measured, p.Timed = nil, nil
	reduces, _ := filepath.Glob(filepath.Join(shared.Path(t, "data/vtrain/lut"), "a100_*"))
	for _, path := range reduces {
		if err := ReadAllReduce(path, &p); err != nil {
			t.Fatal(err)
		}
	}
	p.Rates = p.FitRates(odd)
	p.Timed = p.FitOperators(odd)
	a, err := p.Accuracy(odd)
	b, err2 := want.Accuracy(odd)
	if err != nil || err2 != nil || len(p.Timed) != len(want.Timed) || a.Mean-b.Mean > .001 || b.Mean-a.Mean > .001 {
		t.Errorf("fitted anew the profile is off by %+v, as it stands in the program by %+v; %v, %v", a, b, err, err2)
	}
}

func TestWrite(t *testing.T) {
	p, err := Open("a100")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "p.json")
	if err := Write(path, p, "test"); err != nil {
		t.Fatal(err)
	}
	again, err := Open(path)
	if err != nil || !reflect.DeepEqual(p.Timed, again.Timed) || !reflect.DeepEqual(p.Rates, again.Rates) {
		t.Errorf("%v: what was written is read as %+v", err, again)
	}
}

func TestErrors(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	header := "global batch,micro batch,hidden size,attention heads,# layers,sequence length,tensor parallelism,data parallelism,pipeline parallelism,iteration time (ms)\n"
	for _, c := range []struct {
		read func() error
		want string
	}{
		{func() error { _, err := ReadMeasured(write("a.csv", "x\n1\n")); return err }, `no column "global batch"`},
		{func() error { _, err := ReadMeasured(write("b.csv", header)); return err }, "no rows"},
		{func() error {
			_, err := ReadMeasured(write("c.csv", header+"16,8,1024,16,24,1024,1,1,2,x\n"))
			return err
		}, "line 2: iteration time (ms)"},
		{func() error {
			_, err := ReadMeasured(write("d.csv", header+"16,8,1024,16,24,1024,1,3,2,5\n"))
			return err
		}, "line 2: a global batch of 16 is not divisible by 3"},
		{func() error { _, err := Open("b100"); return err }, "name a100"},
		{func() error { _, err := Open(write("p.json", `{"gpu":"x"}`)); return err }, "write a number above 0"},
		{func() error { return ReadAllReduce(write("reduce.csv", "size(B),time(ns)\n1,1\n"), nil) }, "number of GPUs"},
		{func() error {
			return ReadAllReduce(write("GPU2.csv", "size(B),time(ns)\n2,1\n1,1\n"), &parallel.Profile{})
		}, "sizes that ascend"},
	} {
		if err := c.read(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}
