package hardware

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
)

// amdBox is a machine with two GPUs for computing that the compute driver counts
// the other way round, one for the screen, and a GPU of somebody else.
func amdBox() map[string]string {
	files := map[string]string{
		"/dev/kfd":                          "",
		kfdDir + "/0/properties":            "cpu_cores_count 8\nsimd_count 0\n",
		drmDir + "/card0/device/vendor":     "0x8086\n",
		drmDir + "/card0-DP-1/status":       "disconnected\n",
		drmDir + "/card3/device/vendor":     "0x1002\n",
		drmDir + "/card3/device/uevent":     "DRIVER=amdgpu\nPCI_SLOT_NAME=0000:05:00.0\n",
		drmDir + "/renderD128/dev":          "226:128\n",
		kfdDir + "/3/properties":            "simd_count 8\nlocation_id 1280\ndomain 0\ngfx_target_version 100306\n",
		kfdDir + "/3/gpu_id":                "333\n",
		kfdProcs + "/77/vram_111":           "1048576\n",
		kfdProcs + "/78/vram_111":           "0\n",
		kfdProcs + "/78/vram_222":           "2048\n",
		kfdProcs + "/readme":                "",
		kfdDir + "/1/io_links/0/properties": "type 2\nnode_from 1\nnode_to 0\nmax_bandwidth 32000\n",
		kfdDir + "/1/io_links/1/properties": "type 11\nnode_from 1\nnode_to 2\nmax_bandwidth 50000\n",
	}
	files[drmDir+"/card3/device/mem_info_vram_total"] = "536870912\n"
	for i, g := range []struct {
		card, pci, gpu, unique string
		location               int
	}{{"card1", "0000:c1:00.0", "222", "8589934592", 0xc100}, {"card2", "0000:83:00.0", "111", "0", 0x8300}} {
		dir := drmDir + "/" + g.card + "/device/"
		files[dir+"vendor"] = "0x1002\n"
		files[dir+"uevent"] = "DRIVER=amdgpu\nPCI_SLOT_NAME=" + g.pci + "\n"
		files[dir+"mem_info_vram_total"] = fmt.Sprint(int64(64*unit.GiB)) + "\n"
		files[dir+"mem_info_vram_used"] = "1073741824\n"
		files[dir+"gpu_busy_percent"] = "25\n"
		files[dir+"numa_node"] = "1\n"
		files[dir+"drm/renderD"+fmt.Sprint(129+i)+"/dev"] = ""
		files[dir+"hwmon/hwmon4/temp1_input"] = "45000\n"
		files[dir+"hwmon/hwmon4/temp1_crit"] = "100000\n"
		files[dir+"hwmon/hwmon4/power1_average"] = "90000000\n"
		files[dir+"ras/umc_err_count"] = "ue: 0\nce: 3\n"
		node := kfdDir + "/" + fmt.Sprint(2-i)
		files[node+"/gpu_id"] = g.gpu + "\n"
		files[node+"/properties"] = fmt.Sprintf("cpu_cores_count 0\nsimd_count 416\nlocation_id %d\ndomain 0\nunique_id %s\ngfx_target_version 90010\n", g.location, g.unique)
	}
	files[drmDir+"/card1/device/product_name"] = "AMD Instinct MI210\n"
	return files
}

// TestAMD: GPUs of the compute driver, in its order.
func TestAMD(t *testing.T) {
	root := plant(t, with(amdBox()))
	m := find(t, root, Options{nvml: &fakeNVML{broken: errNoNVML}})
	if len(m.Devices) != 2 || len(m.Notes) != 1 || !strings.Contains(m.Notes[0], "0000:05:00.0) is left out: it has 512MiB") {
		t.Fatalf("%+v", m)
	}
	a, b := m.Devices[0], m.Devices[1]
	if a.Name != "gpu0" || a.Kind != AMD || a.PCI != "0000:83:00.0" || a.Product != "AMD gfx90a" || a.Type != "gfx90a" || a.Visible != "0" || a.NUMA != 1 || a.Env != "ROCR_VISIBLE_DEVICES" {
		t.Errorf("%+v", a)
	}
	if b.Type != "MI210" || b.UUID != "GPU-0000000200000000" || b.Visible != b.UUID || b.Memory != 64*unit.GiB || !slices.Equal(b.Files, []string{"/dev/dri/renderD129", "/dev/dri/card1"}) {
		t.Errorf("%+v", b)
	}
	if l := m.Links.Between(1, 0); l.Class != cluster.NVLink || l.GBps != 50 {
		t.Errorf("%+v", l)
	}
	s := m.Sampler()
	got := s.Sample()
	if x := got[0]; !x.Measured || x.Used != unit.GiB || x.Util != 0.25 || x.Celsius != 45 || x.Watts != 90 || x.Trouble != "" || !slices.Equal(x.Processes, []Process{{77, unit.MiB}}) {
		t.Errorf("%+v", x)
	}
	put(t, root, drmDir+"/card2/device/ras/umc_err_count", "ue: 1\nce: 3\n")
	put(t, root, drmDir+"/card1/device/hwmon/hwmon4/temp1_input", "100000\n")
	if got = s.Sample(); !strings.Contains(got[0].Trouble, "a memory error that cannot be corrected") || !strings.Contains(got[1].Trouble, "100 degrees") {
		t.Errorf("%+v", got)
	}
	if err := os.RemoveAll(filepath.Join(root, drmDir, "card2")); err != nil {
		t.Fatal(err)
	}
	if got = s.Sample(); !strings.Contains(got[0].Trouble, "does not tell its memory any more") {
		t.Errorf("%+v", got)
	}
}

// TestAMDWithoutCompute: GPUs that cannot compute are left out, and why is told.
func TestAMDWithoutCompute(t *testing.T) {
	files := with(amdBox())
	delete(files, "/dev/kfd")
	m := find(t, plant(t, files), Options{nvml: &fakeNVML{broken: errNoNVML}})
	if len(m.Devices) != 0 || len(m.Notes) != 4 || !strings.Contains(m.Notes[0], "/dev/kfd") {
		t.Errorf("%+v", m)
	}
}

// TestBoth: AMD's GPUs are numbered behind NVIDIA's.
func TestBoth(t *testing.T) {
	f, files := hgx(2, "Tesla T4", 15*unit.GiB)
	m := find(t, plant(t, with(amdBox(), files)), Options{nvml: f})
	if got := strings.Join(m.names(), " "); got != "gpu0 gpu1 gpu2 gpu3" || m.Devices[2].Kind != AMD || m.Devices[2].Visible != "0" {
		t.Errorf("%s: %+v", got, m.Devices[2])
	}
}
