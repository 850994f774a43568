package hardware

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
)

// nvml is NVIDIA's management library, as far as it is needed. Its methods may be
// called by any goroutine once open has returned.
type nvml interface {
	// open loads the library and connects with the driver; it may be called again
	// after it has failed. errNoNVML: there is no library.
	open() error
	count() (int, error)
	gpu(index int) (*nvidiaGPU, error)
	// find is the handle of a GPU by its PCI address.
	find(pci string) (handle, error)
	// path is how two GPUs are linked; known is false where the driver does not tell.
	path(a, b handle) (l cluster.Link, known bool)
	read(h handle) (reading, error)
	close()
}

var errNoNVML = errors.New("NVIDIA's management library, libnvidia-ml.so.1, was not found")

// handle is how NVML calls a GPU.
type handle uintptr

// nvidiaGPU is what NVML tells of a GPU once.
type nvidiaGPU struct {
	handle  handle
	product string
	uuid    string
	pci     string
	minor   int // of its device file; -1: not known
	memory  unit.Bytes
	mig     bool
}

// driverGPU is what NVIDIA's driver tells of a GPU in /proc.
type driverGPU struct {
	product, uuid, pci string
	minor              int
}

// survey is what NVML tells of all GPUs: those that answer, in order of their
// addresses, and why the others do not.
type survey struct {
	gpus   []*nvidiaGPU
	silent []error
	err    error // NVML cannot be asked at all
}

func ask(lib nvml) (s survey) {
	n := 0
	if s.err = lib.open(); s.err == nil {
		n, s.err = lib.count()
	}
	for i := range n {
		g, err := lib.gpu(i)
		if err != nil {
			s.silent = append(s.silent, err)
			continue
		}
		s.gpus = append(s.gpus, g)
	}
	return s
}

// errSilent is a driver that hangs.
var errSilent = errors.New("the driver does not answer")

// startPatience is how long the driver may take to wake its GPUs.
const startPatience = time.Minute

// askInTime is ask for a driver that may hang. An answer that comes too late is
// lost.
func askInTime(lib nvml, expired <-chan time.Time) survey {
	reply := make(chan survey, 1)
	go func() { reply <- ask(lib) }()
	select {
	case s := <-reply:
		return s
	case <-expired:
		return survey{err: errSilent}
	}
}

// findNVIDIA adds the GPUs that NVML knows, or, where it cannot be asked, those
// that the driver lists.
func (m *Machine) findNVIDIA(t tree, expired <-chan time.Time) {
	listed := t.driverGPUs()
	s := askInTime(m.nvml, expired)
	if s.err != nil {
		m.fromDriver(t, listed, s.err)
		return
	}
	for _, g := range s.gpus {
		listed = slices.DeleteFunc(listed, func(l driverGPU) bool { return l.pci == g.pci })
		d := m.nvidia(t, driverGPU{g.product, g.uuid, g.pci, g.minor})
		d.Memory, d.MIG = g.memory, g.mig
		d.probe = &nvidiaProbe{lib: m.nvml, pci: d.PCI, handle: g.handle}
		if g.mig {
			m.note("%s (%s) is in MIG mode: it is shared out as a whole, and CUDA uses its first instance alone", d.Product, d.PCI)
		}
		m.Devices = append(m.Devices, d)
	}
	for i, err := range s.silent {
		if i >= len(listed) {
			m.note("a GPU does not answer, and is left out: %v", err)
			continue
		}
		d := m.nvidia(t, listed[i])
		d.probe = &nvidiaProbe{lib: m.nvml, pci: d.PCI}
		m.note("%s (%s) does not answer: %v", d.Product, d.PCI, err)
		m.Devices = append(m.Devices, d)
	}
	slices.SortStableFunc(m.Devices, func(a, b Device) int { return strings.Compare(a.PCI, b.PCI) })
}

// fromDriver adds the GPUs of /proc whose device files are there.
func (m *Machine) fromDriver(t tree, listed []driverGPU, why error) {
	missing := errors.Is(why, errNoNVML)
	found := 0
	for _, l := range listed {
		d := m.nvidia(t, l)
		if len(d.Files) == 0 || !t.exists(d.Files[0]) {
			continue
		}
		if !missing {
			d.probe = &nvidiaProbe{lib: m.nvml, pci: d.PCI}
		}
		m.Devices = append(m.Devices, d)
		found++
	}
	switch {
	case found > 0 && missing:
		m.note("%v: NVIDIA GPUs are not measured, and their memory is not known", why)
	case found > 0:
		m.note("NVIDIA GPUs cannot be used: %v", why)
	case !missing && !errors.Is(why, errNoDriver):
		m.note("NVIDIA GPUs cannot be looked for: %v", why)
	}
}

// nvidia makes a device of what is told of a GPU.
func (m *Machine) nvidia(t tree, g driverGPU) Device {
	d := Device{
		Kind: NVIDIA, Type: ShortType(g.product), Product: g.product, UUID: g.uuid, PCI: g.pci, NUMA: t.numa(g.pci),
		Env: EnvNVIDIA, Visible: g.uuid,
	}
	if g.minor >= 0 {
		d.Files = []string{"/dev/nvidia" + strconv.Itoa(g.minor)}
	}
	if g.uuid == "" { // CUDA counts in order of PCI addresses when CUDA_DEVICE_ORDER says so
		d.Visible = strconv.Itoa(len(m.Devices))
	}
	return d
}

// driverGPUs are the GPUs that NVIDIA's driver lists, in order of their
// addresses.
func (t tree) driverGPUs() []driverGPU {
	const dir = "/proc/driver/nvidia/gpus"
	var all []driverGPU
	for _, name := range t.list(dir, "") {
		f := t.fields(path.Join(dir, name, "information"), ":")
		if f["Model"] == "" || strings.EqualFold(f["GPU Excluded"], "yes") {
			continue
		}
		g := driverGPU{product: f["Model"], uuid: f["GPU UUID"], pci: PlainPCI(name), minor: -1}
		if strings.Contains(g.uuid, "?") { // the driver has not looked yet
			g.uuid = ""
		}
		if n, err := strconv.Atoi(f["Device Minor"]); err == nil && n >= 0 {
			g.minor = n
		}
		all = append(all, g)
	}
	return all
}

// nvidiaProbe measures one GPU.
type nvidiaProbe struct {
	lib    nvml
	pci    string
	handle handle // 0: to be found first
}

func (p *nvidiaProbe) read() (reading, error) {
	if p.handle == 0 {
		if err := p.lib.open(); err != nil {
			return reading{}, err
		}
		h, err := p.lib.find(p.pci)
		if err != nil {
			return reading{}, err
		}
		p.handle = h
	}
	r, err := p.lib.read(p.handle)
	if err != nil {
		p.handle = 0 // after a reset it has another one
	}
	return r, err
}

// nvmlError is a refusal of NVML.
type nvmlError struct {
	code int32
	text string
}

// Codes of NVML that mean something here.
const (
	nvmlNotSupported     = 3
	nvmlNoPermission     = 4
	nvmlInsufficientSize = 7
	nvmlDriverNotLoaded  = 9
	nvmlGPUIsLost        = 15
	nvmlResetRequired    = 16
)

// errNoDriver is a machine on which NVIDIA's driver is not loaded.
var errNoDriver = errors.New("the driver is not loaded")

func (e *nvmlError) Error() string {
	switch e.code {
	case nvmlGPUIsLost:
		return fmt.Sprintf("the driver says: %s; it has fallen off the bus or cannot be reached, and needs a reset or a reboot", e.text)
	case nvmlResetRequired:
		return fmt.Sprintf("the driver says: %s; nvidia-smi --gpu-reset does it when nobody uses the GPU", e.text)
	}
	return "the driver says: " + e.text
}

func (e *nvmlError) Is(target error) bool {
	return target == errNoDriver && e.code == nvmlDriverNotLoaded
}

// lost tells whether the GPU cannot be used, rather than that the driver does not
// know one of its figures.
func (e *nvmlError) lost() bool { return e.code == nvmlGPUIsLost || e.code == nvmlResetRequired }
