package hardware

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
)

// TestNVIDIA: GPUs as the driver tells of them, with what sysfs adds.
func TestNVIDIA(t *testing.T) {
	f, files := hgx(4, "NVIDIA H200", 141*unit.GiB)
	f.links = map[[2]string]cluster.Link{}
	for i := range f.gpus {
		for j := range f.gpus {
			f.links[[2]string{f.gpus[i].pci, f.gpus[j].pci}] = cluster.Link{Class: cluster.NVLink, GBps: 478}
		}
	}
	m := find(t, plant(t, with(files)), Options{nvml: f})
	if m.Name != "box" || m.CPUs != 8*unit.One || m.Memory != 64*unit.GiB || len(m.NUMA) != 2 || len(m.Devices) != 4 || len(m.Notes) != 0 {
		t.Fatalf("%+v", m)
	}
	if n := m.NUMA[1]; n.ID != 1 || !slices.Equal(n.CPUs, []int{4, 5, 6, 7}) || n.Memory != 32*unit.GiB {
		t.Errorf("NUMA node: %+v", n)
	}
	d := m.Devices[3]
	d.probe = nil
	if want := (Device{
		Name: "gpu3", Index: 3, Kind: NVIDIA, Type: "H200", Product: "NVIDIA H200", UUID: "GPU-dddddddd", PCI: "0000:38:00.0", NUMA: 1,
		Memory: 141 * unit.GiB, Files: []string{"/dev/nvidia0"}, Env: "CUDA_VISIBLE_DEVICES", Visible: "GPU-dddddddd",
	}); !reflect.DeepEqual(d, want) {
		t.Errorf("have %+v\nwant %+v", d, want)
	}
	if l := m.Links.Between(0, 3); l.Class != cluster.NVLink || l.GBps != 478 {
		t.Errorf("link: %+v", l)
	}
	types, node := m.Node()
	c := cluster.New()
	for _, g := range types {
		if _, err := c.AddType(g); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.AddNode(node); err != nil || c.FreeGPUs(0, 0) != 4 || types[0].Memory != 141*unit.GiB {
		t.Errorf("%+v, %+v: %v", types, node, err)
	}
	if m.Close(); f.closed != 1 {
		t.Error("the driver was not let go of")
	}
}

// TestNUMALinks: where the driver does not tell, sockets do.
func TestNUMALinks(t *testing.T) {
	f, files := hgx(4, "Tesla T4", 15*unit.GiB)
	m := find(t, plant(t, with(files)), Options{nvml: f})
	near := m.Links.Between(0, 1).Class
	far := m.Links.Between(1, 2).Class
	if near != cluster.Socket || far != cluster.CrossSocket {
		t.Errorf("links %v and %v", near, far)
	}
}

// TestTypesTogether: devices of one type stand together, under the names that the
// machine gave them, and links follow them.
func TestTypesTogether(t *testing.T) {
	f, files := hgx(4, "NVIDIA A100-SXM4-80GB", 80*unit.GiB)
	f.gpus[1].product, f.gpus[1].memory = "NVIDIA H100 PCIe", 80*unit.GiB
	f.gpus[3].product, f.gpus[3].memory = "NVIDIA A100-PCIE-40GB", 40*unit.GiB
	f.links = map[[2]string]cluster.Link{{f.gpus[0].pci, f.gpus[2].pci}: {Class: cluster.NVLink, GBps: 300}}
	m := find(t, plant(t, with(files)), Options{nvml: f})
	var have []string
	for _, d := range m.Devices {
		have = append(have, d.Name+" "+d.Type)
	}
	if want := []string{"gpu0 A100-80G", "gpu2 A100-80G", "gpu1 H100", "gpu3 A100-40G"}; !slices.Equal(have, want) {
		t.Errorf("devices %v, want %v", have, want)
	}
	if class := m.Links.Between(0, 1).Class; class != cluster.NVLink {
		t.Errorf("gpu0 and gpu2 are linked by %v", class)
	}
	types, node := m.Node()
	want := []cluster.GPUType{{Name: "A100-80G", Memory: 80 * unit.GiB}, {Name: "H100", Memory: 80 * unit.GiB}, {Name: "A100-40G", Memory: 40 * unit.GiB}}
	if !reflect.DeepEqual(types, want) || !reflect.DeepEqual(node.GPUs, []cluster.GPUs{{Type: 0, Count: 2}, {Type: 1, Count: 1}, {Type: 2, Count: 1}}) {
		t.Errorf("%+v, %+v", types, node)
	}
}

// TestOnly: GPUs are chosen by number, name, UUID or address, and keep their
// names.
func TestOnly(t *testing.T) {
	f, files := hgx(4, "NVIDIA H100 80GB HBM3", 80*unit.GiB)
	root := plant(t, with(files))
	m := find(t, root, Options{nvml: f, Only: []string{"00000000:38:00.0", "gpu-cccccccc", "0"}})
	if got := m.names(); !slices.Equal(got, []string{"gpu0", "gpu2", "gpu3"}) || m.Links.Devices() != 3 {
		t.Errorf("%v", got)
	}
	for want, only := range map[string][]string{
		`GPU "4" is not there; there are: gpu0, gpu1, gpu2, gpu3`: {"4"},
		`GPU "gpu1" is asked for twice: it is gpu1`:               {"1", "gpu1"},
	} {
		if _, err := Find(Options{Root: root, nvml: f, Only: only}); err == nil || err.Error() != want {
			t.Errorf("%v: %v", only, err)
		}
	}
	_, err := Find(Options{Root: plant(t, box()), nvml: &fakeNVML{broken: &nvmlError{18, "Driver/library version mismatch"}}, Only: []string{"0"}})
	if err == nil || !strings.Contains(err.Error(), "no GPU was found") || !strings.Contains(err.Error(), "version mismatch") {
		t.Errorf("%v", err)
	}
}

// TestSlots: declared slots stand for GPUs, whatever is there.
func TestSlots(t *testing.T) {
	f, files := hgx(4, "NVIDIA H200", 141*unit.GiB)
	root := plant(t, with(files))
	m := find(t, root, Options{nvml: f, Declare: true, Slots: []Slots{{"slot", 2}}})
	if len(m.Devices) != 2 || m.Devices[1].Name != "slot1" || m.Devices[1].Type != "slot" || m.Devices[1].Visible != "1" || m.Links != nil || f.opened != 0 {
		t.Errorf("%+v, the driver was opened %d times", m, f.opened)
	}
	types, node := m.Node()
	if len(types) != 1 || types[0] != (cluster.GPUType{Name: "slot"}) || node.GPUs[0].Count != 2 {
		t.Errorf("%+v, %+v", types, node)
	}
	if none := find(t, root, Options{Declare: true}); len(none.Devices) != 0 {
		t.Errorf("%+v", none.Devices)
	}
	for _, n := range []int{-1, 65} {
		if _, err := Find(Options{Root: root, Declare: true, Slots: []Slots{{"slot", n}}}); err == nil {
			t.Errorf("%d slots are taken", n)
		}
	}
	for _, s := range m.Sampler().Sample() {
		if s.Measured || s.Trouble != "" {
			t.Errorf("a slot is measured: %+v", s)
		}
	}
}

// TestHosts: host devices stand behind GPUs and behind slots, and the processors are
// divided between all that stands for a part of them.
func TestHosts(t *testing.T) {
	f, files := hgx(2, "NVIDIA H200", 141*unit.GiB)
	root := plant(t, with(files))
	m := find(t, root, Options{nvml: f, Hosts: 2})
	types, node := m.Node()
	host := m.Devices[2]
	if len(types) != 2 || types[1] != (cluster.GPUType{Name: "host", Memory: m.Memory / 2, Host: true}) || node.GPUs[1] != (cluster.GPUs{Type: 1, Count: 2}) {
		t.Errorf("%+v, %+v", types, node)
	}
	if len(m.Devices) != 4 || host.Name != "host0" || host.Env != EnvNVIDIA || host.Visible != "" || host.Cores != float64(m.CPUs)/2000 || m.Devices[0].Cores != 0 {
		t.Errorf("%+v", m.Devices)
	}
	c := cluster.New()
	for _, typ := range types {
		if _, err := c.AddType(typ); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.AddNode(node); err != nil { // links of all devices are known
		t.Error(err)
	}
	if all := m.Sampler().Sample(); len(all) != 4 || !all[0].Measured || all[2].Measured {
		t.Errorf("%+v", all)
	}
	m = find(t, root, Options{Declare: true, Slots: []Slots{{"slot", 3}}, SlotMem: unit.GiB, Hosts: 1, HostMem: 2 * unit.GiB})
	types, _ = m.Node()
	if len(m.Devices) != 4 || m.Devices[0].Cores != m.Devices[3].Cores || m.Devices[3].Memory != 2*unit.GiB || types[0].Memory != unit.GiB || types[0].Host || !types[1].Host {
		t.Errorf("%+v, %+v", m.Devices, types)
	}
}

// TestNothing: a machine without GPUs has a note, and an empty tree is no error.
func TestNothing(t *testing.T) {
	m := find(t, plant(t, box()), Options{nvml: &fakeNVML{broken: errNoNVML}})
	if len(m.Devices) != 0 || len(m.Notes) != 1 || !strings.Contains(m.Notes[0], "no GPU was found") || m.Links != nil {
		t.Errorf("%+v", m)
	}
	if m = find(t, plant(t, box()), Options{nvml: &fakeNVML{broken: &nvmlError{nvmlDriverNotLoaded, "Driver Not Loaded"}}}); len(m.Notes) != 1 {
		t.Errorf("a library without a driver is told: %v", m.Notes)
	}
	if m = find(t, t.TempDir(), Options{}); m.CPUs < unit.One || m.Memory != 0 || m.Name != "localhost" {
		t.Errorf("%+v", m)
	}
	types, node := m.Node()
	if len(types) != 0 || len(node.GPUs) != 0 || node.CPU != m.CPUs {
		t.Errorf("%+v", node)
	}
}

func driverFiles() map[string]string {
	return map[string]string{
		"/proc/driver/nvidia/gpus/0000:18:00.0/information": "Model: \t\t NVIDIA A100-SXM4-80GB\nIRQ:   \t\t 35\nGPU UUID: \t GPU-1234\nBus Location: \t 0000:18:00.0\nDevice Minor: \t 1\nGPU Excluded:\t No\n",
		"/proc/driver/nvidia/gpus/0000:3b:00.0/information": "Model: \t\t NVIDIA A100-SXM4-80GB\nGPU UUID: \t GPU-????????-????\nDevice Minor: \t 0\n",
		"/proc/driver/nvidia/gpus/0000:5e:00.0/information": "Model: \t\t NVIDIA A100-SXM4-80GB\nDevice Minor: \t 2\nGPU Excluded:\t Yes\n",
		"/proc/driver/nvidia/gpus/0000:86:00.0/information": "Model: \t\t NVIDIA A100-SXM4-80GB\nDevice Minor: \t 3\n", // not in this container
		"/dev/nvidia0": "", "/dev/nvidia1": "", "/dev/nvidia2": "",
	}
}

// TestDriverAlone: without the library GPUs are found, and not measured.
func TestDriverAlone(t *testing.T) {
	m := find(t, plant(t, with(driverFiles())), Options{nvml: &fakeNVML{broken: errNoNVML}})
	if len(m.Devices) != 2 || !strings.Contains(strings.Join(m.Notes, " "), "are not measured") {
		t.Fatalf("%+v", m)
	}
	a, b := m.Devices[0], m.Devices[1]
	if a.Visible != "GPU-1234" || a.Files[0] != "/dev/nvidia1" || a.Type != "A100" || b.Visible != "1" || b.UUID != "" {
		t.Errorf("%+v\n%+v", a, b)
	}
	for _, s := range m.Sampler().Sample() {
		if s.Trouble != "" || s.Measured {
			t.Errorf("%+v", s)
		}
	}
}

// TestDriverBroken: GPUs whose driver cannot be asked are there and in trouble,
// until it can.
func TestDriverBroken(t *testing.T) {
	f := &fakeNVML{broken: &nvmlError{18, "Driver/library version mismatch"}}
	m := find(t, plant(t, with(driverFiles())), Options{nvml: f})
	if len(m.Devices) != 2 || !strings.Contains(strings.Join(m.Notes, " "), "NVIDIA GPUs cannot be used: the driver says: Driver/library version mismatch") {
		t.Fatalf("%+v", m.Notes)
	}
	s := m.Sampler()
	for _, x := range s.Sample() {
		if !strings.Contains(x.Trouble, "version mismatch") {
			t.Errorf("%+v", x)
		}
	}
	f.mu.Lock()
	f.broken = nil
	f.gpus = []*fakeGPU{{nvidiaGPU: nvidiaGPU{pci: "0000:18:00.0"}, reading: reading{Sample: Sample{Measured: true, Used: 7}}}}
	f.mu.Unlock()
	got := s.Sample()
	if got[0].Trouble != "" || got[0].Used != 7 || !strings.Contains(got[1].Trouble, "Not Found") {
		t.Errorf("%+v", got)
	}
}

// TestDriverHangs: a driver that hangs does not keep Norn from starting, and its
// GPUs come into use when it answers.
func TestDriverHangs(t *testing.T) {
	f := &fakeNVML{hang: make(chan struct{}), gpus: []*fakeGPU{
		{nvidiaGPU: nvidiaGPU{pci: "0000:18:00.0"}}, {nvidiaGPU: nvidiaGPU{pci: "0000:3b:00.0"}},
	}}
	late := make(chan time.Time, 1)
	late <- time.Time{}
	m := find(t, plant(t, with(driverFiles())), Options{nvml: f, expired: late})
	if len(m.Devices) != 2 || !strings.Contains(strings.Join(m.Notes, " "), "cannot be used: the driver does not answer") {
		t.Fatalf("%+v", m)
	}
	s := m.Sampler()
	late <- time.Time{}
	s.expire = func() <-chan time.Time { return late }
	if got := trouble(s); got[0] == "" || got[1] == "" {
		t.Errorf("%q", got)
	}
	close(f.hang)
	s.expire = never
	until(t, s, func(got []string) bool { return got[0] == "" && got[1] == "" })
}

// TestLostAtStart: a GPU that does not answer keeps its place among the others,
// so that their names stay.
func TestLostAtStart(t *testing.T) {
	f, files := hgx(3, "NVIDIA A100-SXM4-80GB", 80*unit.GiB)
	f.gpus[1].lost = &nvmlError{nvmlGPUIsLost, "GPU is lost"}
	for i, pci := range []string{"0000:08:00.0", "0000:18:00.0", "0000:28:00.0"} {
		files["/proc/driver/nvidia/gpus/"+pci+"/information"] = "Model: NVIDIA A100-SXM4-80GB\nGPU UUID: GPU-" + string("abc"[i]) + "\nDevice Minor: " + string("210"[i])
	}
	m := find(t, plant(t, with(files)), Options{nvml: f})
	if len(m.Devices) != 3 || m.Devices[1].PCI != "0000:18:00.0" || m.Devices[1].Name != "gpu1" || m.Devices[2].UUID != "GPU-cccccccc" {
		t.Fatalf("%+v", m.Devices)
	}
	if got := m.Sampler().Sample(); got[0].Trouble != "" || got[1].Trouble == "" || got[2].Trouble != "" {
		t.Errorf("%+v", got)
	}
	f.gpus[0].lost = &nvmlError{999, "Unknown Error"}
	for name := range files {
		if strings.HasPrefix(name, "/proc/driver") {
			delete(files, name)
		}
	}
	if m = find(t, plant(t, with(files)), Options{nvml: f}); len(m.Devices) != 1 || len(m.Notes) != 2 || !strings.Contains(m.Notes[1], "needs a reset or a reboot") {
		t.Errorf("%+v %v", m.Devices, m.Notes)
	}
}

// TestMIG: a GPU in pieces is told of.
func TestMIG(t *testing.T) {
	f, files := hgx(1, "NVIDIA H100 NVL", 94*unit.GiB)
	f.gpus[0].mig = true
	if m := find(t, plant(t, with(files)), Options{nvml: f}); len(m.Notes) != 1 || !strings.Contains(m.Notes[0], "MIG mode") || m.Links != nil {
		t.Errorf("%+v", m)
	}
}

// TestReserve: what is left to the system is not shared out.
func TestReserve(t *testing.T) {
	root := plant(t, box())
	m := find(t, root, Options{Declare: true, Slots: []Slots{{"slot", 1}}, Reserve: Reserve{CPUs: 1500, Memory: unit.GiB}})
	if m.CPUs != 6500 || m.Memory != 63*unit.GiB {
		t.Errorf("%v cores, %v", m.CPUs, m.Memory)
	}
	for _, r := range []Reserve{{CPUs: 8000}, {Memory: 64 * unit.GiB}} {
		if _, err := Find(Options{Root: root, Reserve: r}); err == nil || !strings.Contains(err.Error(), "nothing is left for jobs") {
			t.Errorf("%+v: %v", r, err)
		}
	}
}

// TestShortType: names as users write them.
func TestShortType(t *testing.T) {
	for product, want := range map[string]string{
		"NVIDIA H200": "H200", "NVIDIA H100 80GB HBM3": "H100", "NVIDIA H100 PCIe": "H100", "NVIDIA H100 NVL": "H100", "NVIDIA GH200 480GB": "GH200",
		"NVIDIA A100-SXM4-80GB": "A100", "NVIDIA A100 80GB PCIe": "A100", "A100-SXM-64GB": "A100", "NVIDIA A10G": "A10G", "NVIDIA L40S": "L40S", "NVIDIA B200": "B200",
		"Tesla V100-SXM2-16GB": "V100", "Tesla V100S-PCIE-32GB": "V100S", "Tesla P100-PCIE-16GB": "P100", "Tesla T4": "T4", "Tesla K80": "K80",
		"NVIDIA GeForce RTX 3090": "RTX3090", "NVIDIA GeForce GTX 1080 Ti": "GTX1080Ti", "NVIDIA GeForce RTX 4070 Laptop GPU": "RTX4070", "NVIDIA TITAN RTX": "TITANRTX",
		"NVIDIA RTX A6000": "A6000", "NVIDIA RTX 6000 Ada Generation": "RTX6000Ada", "Quadro RTX 8000": "RTX8000",
		"AMD Instinct MI300X": "MI300X", "AMD INSTINCT MI250 OAM": "MI250", "Instinct MI210": "MI210", "AMD Radeon RX 7900 XTX": "RX7900XTX", "AMD gfx90a": "gfx90a",
		"": "gpu", "NVIDIA": "gpu", "a|b": "ab", "é": "gpu",
	} {
		if got := ShortType(product); got != want {
			t.Errorf("%q is %q, want %q", product, got, want)
		}
	}
}

// TestThisMachine: the machine that the test runs on has a name, CPUs, memory and
// a disk.
func TestThisMachine(t *testing.T) {
	m, err := Find(Options{})
	if err != nil || m.Name == "" || m.CPUs < 1 {
		t.Fatalf("%+v, %v", m, err)
	}
	defer m.Close()
	if got := m.Sampler().Sample(); len(got) != len(m.Devices) {
		t.Errorf("%d devices, %d samples", len(m.Devices), len(got))
	}
	free, size, err := DiskOf(t.TempDir())
	if err != nil || size <= 0 || free > size {
		t.Errorf("%v of %v are free, %v", free, size, err)
	}
	if _, _, err := DiskOf("/no/such/folder"); err == nil || !strings.Contains(err.Error(), "/no/such/folder") {
		t.Errorf("%v", err)
	}
}
