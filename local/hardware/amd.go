package hardware

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/norn-scheduler/norn/cluster/unit"
)

const (
	drmDir   = "/sys/class/drm"
	kfdDir   = "/sys/class/kfd/kfd/topology/nodes"
	kfdProcs = "/sys/class/kfd/kfd/proc"
	vendor   = "0x1002" // of AMD

	// leastAMD is the memory below which an AMD GPU counts as one that draws the
	// screen: those inside of processors take a little of the main memory.
	leastAMD = 2 * unit.GiB
)

// kfdNode is a GPU as AMD's compute driver knows it.
type kfdNode struct {
	id     int    // of the node, among CPUs and GPUs
	order  int    // among GPUs: the number that ROCm gives it
	gpu    string // gpu_id, which names files of its processes
	pci    string
	unique uint64
	isa    string // such as gfx90a
}

// kfdNodes are the GPUs of the compute driver.
func (t tree) kfdNodes() []kfdNode {
	var all []kfdNode
	for _, name := range t.list(kfdDir, "") {
		id, err := strconv.Atoi(name)
		f := t.fields(path.Join(kfdDir, name, "properties"), " ")
		number := func(key string) uint64 {
			n, _ := strconv.ParseUint(f[key], 10, 64)
			return n
		}
		if err != nil || number("simd_count") == 0 {
			continue
		}
		at, v := number("location_id"), number("gfx_target_version")
		all = append(all, kfdNode{
			id: id, order: len(all), gpu: t.word(path.Join(kfdDir, name, "gpu_id")), unique: number("unique_id"),
			pci: fmt.Sprintf("%04x:%02x:%02x.%x", number("domain"), at>>8&0xff, at>>3&0x1f, at&7),
			isa: fmt.Sprintf("gfx%d%x%x", v/10000, v/100%100, v%100),
		})
	}
	return all
}

// findAMD adds the GPUs that the compute driver of AMD knows, in its order.
func (m *Machine) findAMD(t tree) {
	nodes := t.kfdNodes()
	var found []Device
	order := map[string]int{}
	for _, card := range t.list(drmDir, "card") {
		dir := path.Join(drmDir, card, "device")
		if strings.Contains(card, "-") || t.word(path.Join(dir, "vendor")) != vendor {
			continue
		}
		d := Device{Kind: AMD, Env: EnvAMD, PCI: PlainPCI(t.fields(path.Join(dir, "uevent"), "=")["PCI_SLOT_NAME"]), NUMA: -1}
		total, known := t.number(path.Join(dir, "mem_info_vram_total"))
		d.Memory = unit.Bytes(total)
		at := slices.IndexFunc(nodes, func(n kfdNode) bool { return n.pci == d.PCI })
		switch {
		case !known:
			continue // another driver has it
		case at < 0 || !t.exists("/dev/kfd"):
			m.note("an AMD GPU (%s) is left out: the compute driver, /dev/kfd, does not have it", d.PCI)
			continue
		case d.Memory < leastAMD:
			m.note("an AMD GPU (%s) is left out: it has %v of memory of its own", d.PCI, d.Memory)
			continue
		}
		d.describeAMD(t, dir, card, nodes[at])
		order[d.PCI] = nodes[at].order
		found = append(found, d)
	}
	slices.SortStableFunc(found, func(a, b Device) int { return order[a.PCI] - order[b.PCI] })
	m.Devices = append(m.Devices, found...)
}

// describeAMD fills in what sysfs tells of a GPU.
func (d *Device) describeAMD(t tree, dir, card string, n kfdNode) {
	if d.Product = t.word(path.Join(dir, "product_name")); d.Product == "" {
		d.Product = "AMD " + n.isa
	}
	d.Type = ShortType(d.Product)
	if node, ok := t.number(path.Join(dir, "numa_node")); ok && node >= 0 {
		d.NUMA = int(node)
	}
	unique := n.unique
	if unique == 0 {
		unique, _ = strconv.ParseUint(strings.TrimPrefix(t.word(path.Join(dir, "unique_id")), "0x"), 16, 64)
	}
	if d.Visible = strconv.Itoa(n.order); unique != 0 {
		d.UUID = fmt.Sprintf("GPU-%016x", unique)
		d.Visible = d.UUID
	}
	for _, render := range t.list(path.Join(dir, "drm"), "renderD") {
		d.Files = append(d.Files, "/dev/dri/"+render)
	}
	d.Files = append(d.Files, "/dev/dri/"+card)
	d.probe = &amdProbe{t: t, dir: dir, gpu: n.gpu}
}

// amdProbe measures one GPU.
type amdProbe struct {
	t        tree
	dir, gpu string
}

func (p *amdProbe) read() (reading, error) {
	r := reading{Sample: Sample{Measured: true}, ecc: -1}
	used, err := p.t.text(path.Join(p.dir, "mem_info_vram_used"))
	if err != nil {
		return r, fmt.Errorf("its driver does not tell its memory any more: %w", err)
	}
	n, err := strconv.ParseInt(used, 10, 64)
	if err != nil {
		return r, fmt.Errorf("its driver says that %q bytes of its memory are used", used)
	}
	r.Used = unit.Bytes(n)
	if busy, ok := p.t.number(path.Join(p.dir, "gpu_busy_percent")); ok {
		r.Util = float64(busy) / 100
	}
	for _, hw := range p.t.list(path.Join(p.dir, "hwmon"), "hwmon") {
		in := func(files ...string) float64 {
			for _, f := range files {
				if n, ok := p.t.number(path.Join(p.dir, "hwmon", hw, f)); ok {
					return float64(n)
				}
			}
			return 0
		}
		r.Celsius, r.slowdown = in("temp1_input")/1e3, in("temp1_crit")/1e3
		r.Watts = in("power1_average", "power1_input") / 1e6
	}
	if ue, err := strconv.ParseInt(p.t.fields(path.Join(p.dir, "ras/umc_err_count"), ":")["ue"], 10, 64); err == nil {
		r.ecc = ue
	}
	r.Processes = p.running()
	return r, nil
}

// running are the processes that hold memory of the GPU.
func (p *amdProbe) running() []Process {
	var all []Process
	for _, name := range p.t.list(kfdProcs, "") {
		pid, err := strconv.Atoi(name)
		used, ok := p.t.number(path.Join(kfdProcs, name, "vram_"+p.gpu))
		if err == nil && ok && used > 0 {
			all = append(all, Process{pid, unit.Bytes(used)})
		}
	}
	return all
}

// xgmi is the type of a link of kfd that goes from GPU to GPU directly.
const xgmi = "11"

// amdLinks are the pairs of AMD GPUs, by PCI address, that are linked directly,
// and how fast in GB/s; 0 where that is not told.
func (t tree) amdLinks() map[[2]string]float64 {
	nodes := t.kfdNodes()
	pci := map[string]string{}
	for _, n := range nodes {
		pci[strconv.Itoa(n.id)] = n.pci
	}
	pairs := map[[2]string]float64{}
	for _, n := range nodes {
		dir := path.Join(kfdDir, strconv.Itoa(n.id), "io_links")
		for _, name := range t.list(dir, "") {
			f := t.fields(path.Join(dir, name, "properties"), " ")
			if to, ok := pci[f["node_to"]]; ok && f["type"] == xgmi {
				mbps, _ := strconv.ParseFloat(f["max_bandwidth"], 64)
				pairs[[2]string{n.pci, to}] = mbps / 1000
			}
		}
	}
	return pairs
}
