package hardware

import (
	"strings"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
)

// never lets a driver take its time.
func never() <-chan time.Time { return nil }

// sampler watches the GPUs of a driver.
func sampler(t *testing.T, f *fakeNVML, files map[string]string) *Sampler {
	t.Helper()
	s := find(t, plant(t, with(files)), Options{nvml: f}).Sampler()
	s.expire = never
	return s
}

// trouble is what a sample says of each device.
func trouble(s *Sampler) []string {
	var out []string
	for _, x := range s.Sample() {
		out = append(out, x.Trouble)
	}
	return out
}

// TestSample: figures come through, and a GPU that works is in no trouble.
func TestSample(t *testing.T) {
	f, files := hgx(2, "NVIDIA H200", 141*unit.GiB)
	f.gpus[1].reading.Processes = []Process{{4711, 3 * unit.GiB}}
	got := sampler(t, f, files).Sample()
	if x := got[1]; !x.Measured || x.Used != unit.GiB || x.Util != 0.5 || x.Celsius != 50 || x.Watts != 300 || len(x.Processes) != 1 || x.Trouble != "" {
		t.Errorf("%+v", x)
	}
}

// TestLost: a GPU is in trouble as long as it does not answer.
func TestLost(t *testing.T) {
	f, files := hgx(2, "NVIDIA H200", 141*unit.GiB)
	s := sampler(t, f, files)
	for round := range 2 {
		f.set(0, func(g *fakeGPU) { g.lost = &nvmlError{nvmlGPUIsLost, "GPU is lost"} })
		if got := trouble(s); !strings.Contains(got[0], "GPU is lost") || !strings.Contains(got[0], "fallen off the bus") || got[1] != "" {
			t.Errorf("round %d: %q", round, got)
		}
		if got := trouble(s); got[0] == "" { // its handle is looked for anew, and not found
			t.Errorf("round %d: %q", round, got)
		}
		f.set(0, func(g *fakeGPU) { g.lost = nil })
		if got := trouble(s); got[0] != "" || got[1] != "" {
			t.Errorf("round %d, after a reset: %q", round, got)
		}
	}
}

// TestMemoryErrors: those from before do not count, new ones do until the count
// falls or they are forgiven.
func TestMemoryErrors(t *testing.T) {
	f, files := hgx(1, "NVIDIA A100-SXM4-80GB", 80*unit.GiB)
	s := sampler(t, f, files)
	for i, x := range []struct {
		ecc     int64
		forgive bool
		want    string
	}{
		{5, false, ""}, {5, false, ""}, {6, false, "a memory error"}, {8, false, "3 memory errors"}, {-1, false, "3 memory errors"},
		{8, true, ""}, {9, false, "a memory error"}, {0, false, ""}, {1, false, "a memory error"},
	} {
		f.set(0, func(g *fakeGPU) { g.reading.ecc = x.ecc })
		if x.forgive {
			s.Forgive(0)
		}
		if got := trouble(s)[0]; (got == "") != (x.want == "") || !strings.Contains(got, x.want) {
			t.Errorf("step %d: %d errors, %q", i, x.ecc, got)
		}
	}
	s.Forgive(7) // nobody
}

// TestHot: a GPU must have cooled down before it is used again.
func TestHot(t *testing.T) {
	f, files := hgx(1, "NVIDIA A100-SXM4-80GB", 80*unit.GiB)
	s := sampler(t, f, files)
	for i, x := range []struct {
		celsius, slowdown float64
		hot               bool
	}{{89, 90, false}, {90, 90, true}, {86, 90, true}, {0, 90, true}, {85, 90, false}, {86, 90, false}, {200, 0, false}} {
		f.set(0, func(g *fakeGPU) { g.reading.Celsius, g.reading.slowdown = x.celsius, x.slowdown })
		if got := trouble(s)[0]; strings.Contains(got, "degrees") != x.hot {
			t.Errorf("step %d, %v degrees: %q", i, x.celsius, got)
		}
	}
}

// TestHang: a driver that does not answer holds up nobody, is not asked or waited
// for twice, and its late answer counts.
func TestHang(t *testing.T) {
	f, files := hgx(2, "NVIDIA H200", 141*unit.GiB)
	s := sampler(t, f, files)
	hang := make(chan struct{})
	f.gpus[1].hang = hang
	late := make(chan time.Time, 1)
	late <- time.Time{}
	s.expire = func() <-chan time.Time { return late }
	if got := trouble(s); got[1] != "its driver does not answer" {
		t.Fatalf("%q", got)
	}
	s.expire = never // from now on it would be waited for without end, if it were
	until(t, s, func(got []string) bool { return got[0] == "" })
	for range 3 {
		if got := trouble(s); got[0] != "" || got[1] != "its driver does not answer" {
			t.Fatalf("%q", got)
		}
	}
	close(hang)
	until(t, s, func(got []string) bool { return got[1] == "" })
}

// until samples until the troubles are as wanted.
func until(t *testing.T, s *Sampler, wanted func([]string) bool) {
	t.Helper()
	for range 3000 {
		if wanted(trouble(s)) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("it stays with %q", trouble(s))
}
