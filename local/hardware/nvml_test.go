//go:build linux && (amd64 || arm64) && !nonvml

package hardware

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ebitengine/purego"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
)

// compiled is NVML made of testdata/nvml.c, and how to change what it tells.
func compiled(t *testing.T) (*library, func(what int32, value int64)) {
	t.Helper()
	cc := os.Getenv("CC")
	if cc == "" {
		cc = "cc"
	}
	if _, err := exec.LookPath(cc); err != nil {
		t.Skip("there is no C compiler to make a library with")
	}
	path := filepath.Join(t.TempDir(), "libnvidia-ml.so.1")
	if out, err := exec.Command(cc, "-shared", "-fPIC", "-o", path, "testdata/nvml.c").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	lib, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		t.Fatal(err)
	}
	var set func(int32, int64)
	purego.RegisterLibFunc(&set, lib, "fake_set")
	return &library{names: []string{"/no/such/library.so", path}}, set
}

// TestLibrary calls a real shared library, as NVIDIA's header describes it.
func TestLibrary(t *testing.T) {
	lib, set := compiled(t)
	m := find(t, plant(t, box()), Options{nvml: lib})
	defer m.Close()
	if len(m.Devices) != 2 || len(m.Notes) != 1 || !strings.Contains(m.Notes[0], "(0000:3b:00.0) is in MIG mode") {
		t.Fatalf("%+v", m)
	}
	d := m.Devices[1]
	if d.Type != "H200" || d.Product != "NVIDIA H200" || d.UUID != "GPU-0000-1" || d.PCI != "0000:3b:00.0" || d.Memory != 141*unit.GiB || d.Files[0] != "/dev/nvidia5" {
		t.Errorf("%+v", d)
	}
	if l := m.Links.Between(0, 1); l != (cluster.Link{Class: cluster.NVLink, GBps: 14 * 26.562, Count: 14}) { // 3 links that work go to the GPU, 14 to a switch
		t.Errorf("%+v", l)
	}
	s := m.Sampler()
	s.expire = never
	got := s.Sample()
	if x := got[0]; !x.Measured || x.Used != 9*unit.GiB || x.Util != 0.37 || x.Celsius != 41 || x.Watts != 123.456 || x.Trouble != "" || !slices.Equal(x.Processes, []Process{{5000, 2 * unit.GiB}, {5001, unit.GiB}}) {
		t.Errorf("%+v", x)
	}
	if got[1].Watts != 0 || !got[1].Measured { // it does not tell its power
		t.Errorf("%+v", got[1])
	}
	set(3, 200) // more processes than there is room for at first
	set(2, 2)
	got = s.Sample()
	if x := got[0]; len(x.Processes) != 201 || x.Processes[0] != (Process{4801, 0}) || !strings.Contains(x.Trouble, "2 memory errors") {
		t.Errorf("%d processes, %q", len(x.Processes), x.Trouble)
	}
	set(2, 0)
	set(0, 1)
	if got := trouble(s); got[0] != "" || !strings.Contains(got[1], "the driver says: GPU is lost (error 15 of NVML)") {
		t.Errorf("%q", got)
	}
	set(0, -1)
	if got := trouble(s); got[1] != "" {
		t.Errorf("%q", got)
	}
}

// TestLibraryRefuses: a driver that does not match, a GPU that is lost, a library
// that is not there or is another one.
func TestLibraryRefuses(t *testing.T) {
	lib, set := compiled(t)
	set(1, 18)
	if m := find(t, plant(t, box()), Options{nvml: lib}); len(m.Devices) != 0 || !strings.Contains(m.Notes[0], "Driver/library version mismatch") {
		t.Errorf("%+v", m)
	}
	set(1, 0)
	set(0, 0)
	m := find(t, plant(t, box()), Options{nvml: lib})
	if len(m.Devices) != 1 || m.Devices[0].UUID != "GPU-0000-1" || !strings.Contains(m.Notes[1], "is left out") {
		t.Errorf("%+v", m)
	}
	m.Close()
	if _, err := lib.count(); err == nil {
		t.Error("it was not closed")
	}
	if err := (&library{names: []string{"/no/such/library.so"}}).open(); err != errNoNVML {
		t.Errorf("%v", err)
	}
	if err := (&library{names: []string{"libc.so.6"}}).open(); err == nil || !strings.Contains(err.Error(), "is not NVML") {
		t.Errorf("%v", err)
	}
}
