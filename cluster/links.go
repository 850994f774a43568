package cluster

import (
	"fmt"
	"strings"
)

// LinkClass is how two devices of a node are linked, best first.
type LinkClass uint8

// The classes of links inside a node.
const (
	SameDevice  LinkClass = iota
	NVLink                // direct, or through a switch at full speed
	PCIeSwitch            // one PCIe switch
	Socket                // the same CPU socket, through its root complex
	CrossSocket           // between sockets
)

func (l LinkClass) String() string {
	return [...]string{"same", "nvlink", "pcie", "socket", "cross-socket"}[l]
}

// MaxNVLinks is the largest number of NVLinks side by side, and MaxNVLinkGen the
// latest generation.
const (
	MaxNVLinks   = 255
	MaxNVLinkGen = 9
)

// Link is the way between two devices of a node. Zero fields are not known.
type Link struct {
	Class LinkClass
	GBps  float64 // one way
	Count uint8   // NVLinks side by side
	Gen   uint8   // generation of the NVLinks, 1 for that of P100
}

// NVLinkGBps is the speed of one NVLink of a generation, one way in GB/s: 20 of the first,
// 25 of the second to the fourth, 50 from the fifth on. Sources: NVIDIA's architecture
// whitepapers for P100, V100, A100, H100 and B200.
func NVLinkGBps(gen uint8) float64 {
	switch {
	case gen == 1:
		return 20
	case gen >= 5:
		return 50
	}
	return 25
}

// typicalGBps are speeds in GB/s that are used where a description gives none: NVLink
// 2.0 (one link), PCIe 3.0 x16, and the same across sockets.
var typicalGBps = [CrossSocket + 1]float64{NVLink: 25, PCIeSwitch: 12, Socket: 12, CrossSocket: 9}

// typical is the speed of a link whose description gives none.
func (l Link) typical() float64 {
	if l.Class == NVLink {
		return NVLinkGBps(l.Gen) * float64(max(1, l.Count))
	}
	return typicalGBps[l.Class]
}

// Links tells how the devices of a node are linked with each other, by their
// index in the node.
type Links struct {
	n   int
	all []Link
}

// NewLinks makes the links of n devices, all CrossSocket.
func NewLinks(n int) *Links {
	l := &Links{n: n, all: make([]Link, n*n)}
	for i := range n {
		for j := range i {
			l.Connect(i, j, Link{Class: CrossSocket})
		}
	}
	return l
}

// Devices is the number of devices.
func (l *Links) Devices() int { return l.n }

// Connect sets the link between two devices. A speed of zero means the typical one: of
// NVLinks by their count and generation, else of the class.
func (l *Links) Connect(i, j int, link Link) {
	if link.GBps == 0 {
		link.GBps = link.typical()
	}
	l.all[i*l.n+j], l.all[j*l.n+i] = link, link
}

// Between is the link between two devices.
func (l *Links) Between(i, j int) Link { return l.all[i*l.n+j] }

// Equal tells whether two nodes are linked alike.
func (l *Links) Equal(o *Links) bool {
	if l == nil || o == nil {
		return l == o
	}
	if l.n != o.n {
		return false
	}
	for i := range l.all {
		if l.all[i] != o.all[i] {
			return false
		}
	}
	return true
}

// Sockets tells for each device which CPU socket it stands at, by numbers from 0 on. A socket has the devices
// that come one after the other of which no two are linked across sockets; all of a switched NVLink node,
// whose links do not tell, have one.
func (l *Links) Sockets() []int {
	of := make([]int, l.n)
	first, last := 0, 0
	for i := 1; i < l.n; i++ {
		for j := first; j < i; j++ {
			if l.Between(i, j).Class == CrossSocket {
				first, last = i, last+1
				break
			}
		}
		of[i] = last
	}
	return of
}

// LinkLayout is a well-known way in which the GPUs of a node are linked.
type LinkLayout struct {
	Name  string
	About string // one line: the machines, and where the figures come from
	GPUs  int    // that it is for; 0: any number

	connect func(l *Links)
}

// Links are the links of n GPUs.
func (p LinkLayout) Links(n int) (*Links, error) {
	if p.GPUs > 0 && p.GPUs != n {
		return nil, fmt.Errorf("links %s are for %d GPUs, the node has %d", p.Name, p.GPUs, n)
	}
	l := NewLinks(n)
	p.connect(l)
	return l, nil
}

// LinkLayouts are all layouts, those of any number of GPUs first.
func LinkLayouts() []LinkLayout {
	return []LinkLayout{
		{"nvswitch", "all pairs by NVLink at full speed, 300 GB/s", 0, func(l *Links) { l.mesh(Link{Class: NVLink, GBps: 300}) }},
		{"pcie", "pairs of GPUs under a PCIe switch, two sockets", 0, pcieBox},
		{"pcie-switch", "all GPUs of a socket under one PCIe switch, two sockets", 0, func(l *Links) { l.sockets(PCIeSwitch) }},
		{"pcie-socket", "each GPU at its socket's root complex, two sockets", 0, func(l *Links) { l.sockets(Socket) }},
		{"dgx1-p100", "NVIDIA DGX-1 with P100: hybrid cube mesh of single NVLinks 1 (NVIDIA DGX-1 whitepaper)", 8, func(l *Links) { l.cubeMesh(1, false) }},
		{"dgx1", "NVIDIA DGX-1 with V100, also AWS p3.16xlarge: hybrid cube mesh of single and double NVLinks 2 (MAPA, SC 21)", 8, func(l *Links) { l.cubeMesh(2, true) }},
		{"v100-quad", "half of a DGX-1 with V100: AWS p3.8xlarge", 4, func(l *Links) { l.cubeMesh(2, true) }},
		{"dgx2", "NVIDIA DGX-2: 16 V100, six NVLinks 2 each into switches (NVIDIA)", 16, func(l *Links) { l.mesh(Link{Class: NVLink, Count: 6, Gen: 2}) }},
		{"a100-quad", "HGX A100 with 4 GPUs, such as Perlmutter and JUWELS Booster: four NVLinks 3 between each two (NVIDIA)", 4, func(l *Links) { l.mesh(Link{Class: NVLink, Count: 4, Gen: 3}) }},
		{"dgx-a100", "NVIDIA DGX A100, also HGX A100 with 8 GPUs: twelve NVLinks 3 each into switches (NVIDIA)", 8, func(l *Links) { l.mesh(Link{Class: NVLink, Count: 12, Gen: 3}) }},
		{"h100-quad", "HGX H100 with 4 GPUs: six NVLinks 4 between each two (NVIDIA)", 4, func(l *Links) { l.mesh(Link{Class: NVLink, Count: 6, Gen: 4}) }},
		{"dgx-h100", "NVIDIA DGX H100, also HGX H100 and H200 with 8 GPUs: eighteen NVLinks 4 each into switches (NVIDIA)", 8, func(l *Links) { l.mesh(Link{Class: NVLink, Count: 18, Gen: 4}) }},
		{"dgx-b200", "NVIDIA DGX B200: eighteen NVLinks 5 each into switches (NVIDIA)", 8, func(l *Links) { l.mesh(Link{Class: NVLink, Count: 18, Gen: 5}) }},
		{"minsky", "IBM Power S822LC with 4 P100: two NVLinks 1 between the two of a socket (IBM REDP-5405)", 4, func(l *Links) { l.islands(2, Link{Class: NVLink, Count: 2, Gen: 1}) }},
		{"summit", "IBM Power AC922 of Summit with 6 V100: two NVLinks 2 between each two of a socket, X-Bus of 32 GB/s (WikiChip)", 6, summitNode},
		{"torus-2d", "16 GPUs in a torus of 4x4 with single and double NVLinks 2; no machine, but simulated with MAPA (SC 21)", 16, (*Links).torus},
	}
}

// LinkPreset is the links of a layout by its name; an unknown name is an error that
// lists the known ones.
func LinkPreset(name string, n int) (*Links, error) {
	var names []string
	for _, p := range LinkLayouts() {
		if p.Name == name {
			return p.Links(n)
		}
		names = append(names, p.Name)
	}
	return nil, fmt.Errorf("unknown links %q: write %s or %s", name, strings.Join(names[:len(names)-1], ", "), names[len(names)-1])
}

// mesh links all devices alike.
func (l *Links) mesh(link Link) { l.islands(l.n, link) }

// islands links the devices of each group of so many alike.
func (l *Links) islands(size int, link Link) {
	for i := range l.n {
		for j := range i {
			if i/size == j/size {
				l.Connect(i, j, link)
			}
		}
	}
}

// sockets links the devices of each of two sockets in one way.
func (l *Links) sockets(class LinkClass) { l.islands((l.n+1)/2, Link{Class: class}) }

func pcieBox(l *Links) {
	l.sockets(Socket)
	l.islands(2, Link{Class: PCIeSwitch})
}

// summitNode is two sockets of three. The X-Bus has 64 GB/s in both directions together.
func summitNode(l *Links) {
	l.mesh(Link{Class: CrossSocket, GBps: 32})
	l.islands(3, Link{Class: NVLink, Count: 2, Gen: 2})
}

// cubeMesh is the hybrid cube mesh of a DGX-1, or its first half. Two sockets have four
// GPUs each. On a board with V100 half of the pairs that are linked have two NVLinks.
func (l *Links) cubeMesh(gen uint8, double bool) {
	l.islands(4, Link{Class: Socket})
	l.connectPairs(cubeMeshPairs, gen, double)
}

// torus is a torus of four rows of four. GPUs of a row stand at one socket.
func (l *Links) torus() {
	l.islands(4, Link{Class: Socket})
	l.connectPairs(torusPairs, 2, true)
}

// pair is two GPUs and the NVLinks between them.
type pair struct {
	a, b    int
	nvlinks uint8
}

// connectPairs links pairs whose GPUs the node has.
func (l *Links) connectPairs(pairs []pair, gen uint8, double bool) {
	for _, p := range pairs {
		if p.a >= l.n || p.b >= l.n {
			continue
		}
		if !double {
			p.nvlinks = 1
		}
		l.Connect(p.a, p.b, Link{Class: NVLink, Count: p.nvlinks, Gen: gen})
	}
}

// cubeMeshPairs are the pairs of a DGX-1 that are linked, with the NVLinks of V100.
var cubeMeshPairs = []pair{
	{0, 1, 1}, {0, 2, 1}, {0, 3, 2}, {0, 4, 2}, {1, 2, 2}, {1, 3, 1}, {1, 5, 2}, {2, 3, 2},
	{2, 6, 1}, {3, 7, 1}, {4, 5, 1}, {4, 6, 1}, {4, 7, 2}, {5, 6, 2}, {5, 7, 1}, {6, 7, 2},
}

// torusPairs are those of the torus.
var torusPairs = []pair{
	{0, 1, 2}, {1, 2, 2}, {2, 3, 2}, {0, 3, 1}, {4, 5, 2}, {5, 6, 2}, {6, 7, 2}, {4, 7, 1},
	{8, 9, 2}, {9, 10, 2}, {10, 11, 2}, {8, 11, 1}, {12, 13, 2}, {13, 14, 2}, {14, 15, 2}, {12, 15, 1},
	{0, 12, 2}, {1, 13, 1}, {2, 14, 1}, {3, 15, 2}, {0, 4, 1}, {1, 5, 1}, {2, 6, 1}, {3, 7, 1},
	{4, 8, 1}, {5, 9, 1}, {6, 10, 1}, {7, 11, 1}, {8, 12, 1}, {9, 13, 1}, {10, 14, 1}, {11, 15, 1},
}
