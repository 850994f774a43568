//go:build linux && (amd64 || arm64) && !nonvml

package hardware_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/local/hardware"
	"github.com/norn-scheduler/norn/local/hardware/smi"
)

// recorded looks at a machine of testdata/machines.
func recorded(t *testing.T, name string) *hardware.Machine {
	t.Helper()
	m, err := hardware.FindRecorded(name, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// text is a file of a recorded machine.
func text(t *testing.T, name, file string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "machines", name, file))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestRecordedMachines: what is found on real machines, from what NVML and sysfs told
// there, is what nvidia-smi said of types, memory, MIG and links.
func TestRecordedMachines(t *testing.T) {
	for name, gpus := range map[string]int{"h100-vm": 1, "h100-mps": 1, "h200-vm": 1, "dgx1-v100": 8, "dgx-a100": 8, "h100-quad": 4, "rtx5090-pair": 2, "rtx4090-eight": 8} {
		m := recorded(t, name)
		if len(m.Devices) != gpus {
			t.Errorf("%s: %d GPUs", name, len(m.Devices))
		}
		topology, err := smi.ParseTopology(text(t, name, "topo.txt"))
		if err != nil || len(topology.Links) != gpus {
			t.Fatalf("%s: %v", name, err)
		}
		for _, off := range topology.Differences(m) {
			t.Errorf("%s: %s", name, off)
		}
		xml, err := os.ReadFile(filepath.Join("testdata", "machines", name, "smi.xml"))
		if err != nil {
			continue // made of what others have published, who did not publish that
		}
		report, err := smi.Parse(xml)
		if err != nil || len(report.GPUs) != gpus {
			t.Fatalf("%s: %v", name, err)
		}
		for _, off := range append(append(report.Types(m), report.Memory(m)...), report.MIG(m)...) {
			t.Errorf("%s: %s", name, off)
		}
	}
}

// TestRecordedLayouts: the layouts of links that are known by name are those of the machines
// that were recorded.
func TestRecordedLayouts(t *testing.T) {
	for machine, layout := range map[string]string{"dgx1-v100": "dgx1", "dgx-a100": "dgx-a100", "h100-quad": "h100-quad"} {
		got := recorded(t, machine).Links
		want, err := cluster.LinkPreset(layout, got.Devices())
		if err != nil {
			t.Errorf("%s: %v", machine, err)
			continue
		}
		for i := range got.Devices() {
			for j := range i {
				g, w := got.Between(i, j), want.Between(i, j)
				if w.Gen = 0; g != w { // the driver is not asked for the generation
					t.Errorf("%s: %d and %d: %+v, the layout has %+v", machine, i, j, g, w)
				}
			}
		}
	}
}

// TestRecordedLinks: NVLinks are counted, those to each other and those to switches.
func TestRecordedLinks(t *testing.T) {
	for _, c := range []struct {
		machine string
		i, j    int
		class   cluster.LinkClass
		gbps    float64 // 0: typical of the class
	}{
		{"dgx1-v100", 0, 1, cluster.NVLink, 25}, {"dgx1-v100", 0, 3, cluster.NVLink, 50}, {"dgx1-v100", 2, 6, cluster.NVLink, 25},
		{"dgx1-v100", 0, 5, cluster.CrossSocket, 0}, {"dgx1-v100", 3, 7, cluster.NVLink, 25},
		{"dgx-a100", 0, 7, cluster.NVLink, 300}, {"h100-quad", 1, 2, cluster.NVLink, 150},
		{"rtx5090-pair", 0, 1, cluster.Socket, 0}, {"rtx4090-eight", 0, 1, cluster.CrossSocket, 0},
	} {
		l := recorded(t, c.machine).Links.Between(c.i, c.j)
		if l.Class != c.class || c.gbps > 0 && l.GBps != c.gbps {
			t.Errorf("%s: %d and %d: %+v", c.machine, c.i, c.j, l)
		}
	}
}

// TestRecordedLoad: what is measured of a GPU on which processes compute is what
// nvidia-smi said at that time. Under CUDA MPS the driver lists clients twice.
func TestRecordedLoad(t *testing.T) {
	for name, processes := range map[string]int{"h100-vm": 1, "h100-mps": 3} {
		report, err := smi.Parse([]byte(text(t, name, "smi.xml")))
		if err != nil {
			t.Fatal(err)
		}
		got, want := recorded(t, name).Sampler().Sample()[0], report.GPUs[0]
		if !got.Measured || got.Trouble != "" || max(got.Used-want.Used, want.Used-got.Used) > unit.MiB || got.Util != want.Util || got.Celsius < 40 || got.Watts < 300 {
			t.Errorf("%s: %+v, nvidia-smi: %+v", name, got, want)
		}
		if len(got.Processes) != processes || len(want.Processes) != processes {
			t.Fatalf("%s: %+v, nvidia-smi: %+v", name, got.Processes, want.Processes)
		}
		for i, p := range got.Processes {
			if q := want.Processes[i]; p.PID != q.PID || p.Used != q.Used {
				t.Errorf("%s: %+v, nvidia-smi: %+v", name, p, q)
			}
		}
	}
}

// TestUnlike: what differs from nvidia-smi is told of each GPU.
func TestUnlike(t *testing.T) {
	m := recorded(t, "h100-vm")
	for from, want := range map[string]string{
		"<product_name>NVIDIA H100 80GB HBM3": "the product is",
		"<uuid>GPU-2027141a":                  "the UUID is",
		"<minor_number>0":                     "the device file is",
		`<gpu id="00000000:00:06.0">`:         "gpu0 at 0000:00:06.0 is not in nvidia-smi; NVIDIA H100 80GB HBM3 at 0000:00:16.0 was not found",
		"<total>81559 MiB":                    "79.65GiB of memory",
		"<current_mig>Disabled":               "in MIG mode: false, in nvidia-smi: true",
	} {
		to := map[string]string{`<gpu id="00000000:00:06.0">`: `<gpu id="00000000:00:16.0">`, "<total>81559 MiB": "<total>80000 MiB", "<current_mig>Disabled": "<current_mig>Enabled"}[from]
		if to == "" {
			to = from + "7"
		}
		xml := text(t, "h100-vm", "smi.xml")
		if !strings.Contains(xml, from) {
			t.Fatalf("no %s", from)
		}
		report, err := smi.Parse([]byte(strings.Replace(xml, from, to, 1)))
		if err != nil {
			t.Fatal(err)
		}
		off := strings.Join(append(append(report.Types(m), report.Memory(m)...), report.MIG(m)...), "; ")
		if !strings.Contains(off, want) {
			t.Errorf("%s: %q", to, off)
		}
	}
	for from, want := range map[string]string{"NV2": "NV1", "NV1": "PIX", "SYS": "NODE"} {
		other, err := smi.ParseTopology(strings.ReplaceAll(text(t, "dgx1-v100", "topo.txt"), from, want))
		if err != nil {
			t.Fatal(err)
		}
		if off := other.Differences(recorded(t, "dgx1-v100")); (len(off) > 0) == (from == "NV2") { // faster than told is no difference
			t.Errorf("%s for %s: %q", want, from, off)
		}
	}
}
