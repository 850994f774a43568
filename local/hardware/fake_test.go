package hardware

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
)

// plant makes a tree of files with the given contents.
func plant(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		put(t, root, name, text)
	}
	return root
}

func put(t *testing.T, root, name, text string) {
	t.Helper()
	path := filepath.Join(root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

// box is a machine with two sockets of four CPUs and 64 GiB.
func box() map[string]string {
	return map[string]string{
		"/proc/sys/kernel/hostname":              "box\n",
		"/proc/self/status":                      "Name:\tnorn\nCpus_allowed:\tff\nCpus_allowed_list:\t0-7\n",
		"/proc/meminfo":                          "MemTotal:       67108864 kB\nMemFree:        1 kB\n",
		"/sys/devices/system/node/node0/cpulist": "0-3\n",
		"/sys/devices/system/node/node0/meminfo": "Node 0 MemTotal:       33554432 kB\n",
		"/sys/devices/system/node/node1/cpulist": "4-7\n",
		"/sys/devices/system/node/node1/meminfo": "Node 1 MemTotal:       33554432 kB\n",
	}
}

// with is a box with more files.
func with(more ...map[string]string) map[string]string {
	all := box()
	for _, m := range more {
		for name, text := range m {
			all[name] = text
		}
	}
	return all
}

// fakeNVML is a driver with GPUs that a test sets.
type fakeNVML struct {
	mu     sync.Mutex
	gpus   []*fakeGPU
	broken error         // of open
	hang   chan struct{} // open returns when this is closed; nil: at once
	opened int
	closed int
	links  map[[2]string]cluster.Link
}

// fakeGPU is one of them.
type fakeGPU struct {
	nvidiaGPU
	lost    error // it does not answer
	reading reading
	hang    chan struct{} // it answers when this is closed; nil: at once
}

func (f *fakeNVML) open() error {
	if f.hang != nil {
		<-f.hang
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.opened++
	return f.broken
}

func (f *fakeNVML) count() (int, error) { return len(f.gpus), nil }

func (f *fakeNVML) gpu(i int) (*nvidiaGPU, error) {
	g := f.gpus[i]
	if g.lost != nil {
		return nil, g.lost
	}
	g.handle = handle(i + 1)
	return &g.nvidiaGPU, nil
}

func (f *fakeNVML) find(pci string) (handle, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, g := range f.gpus {
		if g.pci == pci && g.lost == nil {
			return handle(i + 1), nil
		}
	}
	return 0, &nvmlError{6, "Not Found"}
}

func (f *fakeNVML) path(a, b handle) (cluster.Link, bool) {
	l, known := f.links[[2]string{f.gpus[a-1].pci, f.gpus[b-1].pci}]
	return l, known
}

func (f *fakeNVML) read(h handle) (reading, error) {
	g := f.gpus[h-1]
	if g.hang != nil {
		<-g.hang
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return g.reading, g.lost
}

func (f *fakeNVML) close() { f.closed++ }

// set changes a GPU between two samples.
func (f *fakeNVML) set(i int, change func(*fakeGPU)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f.gpus[i])
}

// hgx is a driver with n GPUs, half of them on each socket.
func hgx(n int, product string, memory unit.Bytes) (*fakeNVML, map[string]string) {
	f := &fakeNVML{}
	files := map[string]string{}
	for i := range n {
		pci := "0000:" + string("0123456789abcdef"[i]) + "8:00.0"
		files["/sys/bus/pci/devices/"+pci+"/numa_node"] = string("01"[i*2/n]) + "\n"
		files["/dev/nvidia"+string("0123456789"[n-1-i])] = "" // minor numbers run the other way
		f.gpus = append(f.gpus, &fakeGPU{
			nvidiaGPU: nvidiaGPU{product: product, uuid: "GPU-" + strings.Repeat(string("abcdefgh"[i]), 8), pci: pci, minor: n - 1 - i, memory: memory},
			reading:   reading{Sample: Sample{Measured: true, Used: unit.GiB, Util: 0.5, Celsius: 50, Watts: 300}, ecc: 0, slowdown: 90},
		})
	}
	return f, files
}

// find looks at a tree.
func find(t *testing.T, root string, opt Options) *Machine {
	t.Helper()
	opt.Root = root
	m, err := Find(opt)
	if err != nil {
		t.Fatal(err)
	}
	return m
}
