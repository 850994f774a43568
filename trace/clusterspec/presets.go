package clusterspec

import (
	"fmt"
	"sort"
	"strings"
	"time"

	"github.com/norn-scheduler/norn/cluster"
)

// Preset is a cluster whose figures are built in.
type Preset struct {
	Name   string
	About  string // one line: what it is, and where its figures come from
	levels []Level
	nodes  []Group
}

// gpuNICs are adapters of 400 Gbit/s, one for each of eight GPUs.
func gpuNICs() cluster.NICs { return cluster.NICs{Count: 8, GBps: 50, Latency: 2 * time.Microsecond} }

// h100s are nodes with eight H100 and an adapter for each.
func h100s(n int) []Group {
	g := nodes("", n, "H100", 8, 0, 0)
	g.NICs, g.Links = gpuNICs(), Links{Preset: "dgx-h100"}
	return []Group{g}
}

// networks are presets of which the network is known or assumed.
func networks() []Preset {
	one := nodes("", 24, "A100", 1, 0, 0)
	one.NICs = cluster.NICs{Count: 1, GBps: 6.25, Latency: 2 * time.Microsecond}
	up := func(gbps float64) cluster.Uplink { return cluster.Uplink{GBps: gbps, Latency: time.Microsecond} }
	return []Preset{
		{
			Name:   "clos-2",
			About:  "no machine: 64 nodes of 8 H100 with 400 Gbit/s for each, in a two-tier Clos of leaves of 8 nodes, over-subscribed 2:1",
			levels: []Level{{"leaf", 8, up(1600)}}, nodes: h100s(64),
		},
		{
			Name:   "clos-3",
			About:  "no machine: 5,000 nodes of 8 H100 with 400 Gbit/s for each, in a three-tier Clos of leaves of 20 and pods of 200 nodes, over-subscribed 1:1 and 4:1",
			levels: []Level{{"pod", 200, up(20_000)}, {"leaf", 20, up(8000)}}, nodes: h100s(5000),
		},
		{
			Name:   "cassini",
			About:  "the testbed of CASSINI (Rajasekaran et al., NSDI 24): 24 servers of one A100 with 50 Gbit/s, 2:1; 12 leaves of 2 servers are assumed",
			levels: []Level{{"leaf", 2, up(6.25)}}, nodes: []Group{one},
		},
		{
			Name:   "lingjun",
			About:  "Alibaba Lingjun (Cao et al., Crux, SIGCOMM 24): 847 hosts below 119 ASW and 3 PSW; their 8 GPUs, adapters and speeds are assumed",
			levels: lingjunLevels(), nodes: lingjunHosts(),
		},
	}
}

// lingjunLevels are the switches above the hosts of Lingjun. Speeds are assumed: 2:1 for the eight
// hosts of an ASW, and as much for 48 of these.
func lingjunLevels() []Level {
	return []Level{{Name: "DSW"}, {"PSW", 0, cluster.Uplink{GBps: 9600, Latency: time.Microsecond}}, {"ASW", 0, cluster.Uplink{GBps: 400, Latency: time.Microsecond}}}
}

// lingjunNICs are assumed: four adapters of 200 Gbit/s for eight GPUs.
func lingjunNICs() cluster.NICs {
	return cluster.NICs{Count: 4, GBps: 25, Latency: 2 * time.Microsecond}
}

// lingjunHosts are the hosts below each ASW, S1, S2 and so on, of each PSW, as its topo.csv has them.
func lingjunHosts() []Group {
	var groups []Group
	for _, p := range []struct{ psw, hosts string }{
		{"P8", "88676787767476678554687555662"},
		{"P10", "878888888888888888877887887588886678688888738788"},
		{"P12", "788888888678858886888887888888882277867768"},
	} {
		for i, digit := range p.hosts {
			n := int(digit - '0')
			g := nodes(fmt.Sprintf("%s-S%d-{0}", p.psw, i+1), n, UnnamedType, 8, 0, 0)
			g.Place, g.NICs = []string{"G6", p.psw, fmt.Sprintf("S%d", i+1)}, lingjunNICs()
			groups = append(groups, g)
		}
	}
	return groups
}

// Spec is the description of the cluster.
func (p Preset) Spec() (*Spec, error) {
	s := &Spec{Levels: append([]Level(nil), p.levels...), Nodes: append([]Group(nil), p.nodes...)}
	if err := s.finish(); err != nil {
		return nil, fmt.Errorf("preset %s: %w", p.Name, err)
	}
	return s, nil
}

// Presets are all presets, by name. docs/clusters.md says more about their
// sources.
func Presets() []Preset {
	all := []Preset{
		{
			Name:   "philly",
			About:  "Microsoft Philly (Jeon et al., ATC 19): 2,490 GPUs in 2-GPU and 8-GPU servers; 321 and 231 of them, and racks of 16, are assumed",
			levels: racks(16), nodes: []Group{nodes("g2-{0}", 321, UnnamedType, 2, 0, 0), nodes("g8-{0}", 231, UnnamedType, 8, 0, 0)},
		},
		{
			Name:  "philly-qssf",
			About: "Philly as simulated by Helios (Hu et al., SC 21): 352 nodes of 8 GPUs in 11 virtual clusters",
			nodes: virtualClusters("6214e9=64 7f04ca=32 11cb48=16 b436b2=64 ee9e8c=64 e13805=16 6c71a0=32 2869ce=16 ed69ec=8 103959=8 0e4a51=32"),
		},
		{Name: "venus", About: "SenseTime Helios, Venus (Hu et al., SC 21): 133 nodes of 8 GPUs", nodes: []Group{nodes("", 133, UnnamedType, 8, 0, 0)}},
		{Name: "earth", About: "SenseTime Helios, Earth (Hu et al., SC 21): 143 nodes of 8 GPUs", nodes: []Group{nodes("", 143, UnnamedType, 8, 0, 0)}},
		{Name: "saturn", About: "SenseTime Helios, Saturn (Hu et al., SC 21): 262 nodes of 8 GPUs", nodes: []Group{nodes("", 262, UnnamedType, 8, 0, 0)}},
		{Name: "uranus", About: "SenseTime Helios, Uranus (Hu et al., SC 21): 264 nodes of 8 GPUs", nodes: []Group{nodes("", 264, UnnamedType, 8, 0, 0)}},
		{
			Name:  "helios-venus-lucid",
			About: "Venus in September 2020 as simulated by Lucid (Hu et al., ASPLOS 23): 135 nodes of 8 GPUs in 15 virtual clusters",
			nodes: virtualClusters("vcEwI=9 vcWoR=5 vcHvQ=8 vcvGl=20 vc8Gr=6 vcKeu=12 vcKrE=4 vcYVn=11 vchbv=4 vcLTP=8 vchA3=3 vcJsw=32 vcefl=10 vcvlY=2 vcgkz=1"),
		},
		{
			Name:  "pai",
			About: "Alibaba PAI 2020 (Weng et al., NSDI 22): the 1,897 machines of its list, 6,742 GPUs, by shape",
			nodes: []Group{
				nodes("p100-{0}", 798, "P100", 2, 64, 512), nodes("t4-{0}", 497, "T4", 2, 96, 512), nodes("misc-{0}", 280, "MISC", 8, 96, 512),
				nodes("v100m32-{0}", 135, "V100M32", 8, 96, 384), nodes("v100-{0}", 59, "V100", 8, 96, 512), nodes("v100s-{0}", 45, "V100", 8, 96, 384),
				nodes("cpu-{0}", 83, "", 0, 96, 512),
			},
		},
		{
			Name:  "pai-hetero",
			About: "the mixed cluster of the PAI simulator (Weng et al., NSDI 22): 380 nodes, 1,352 GPUs",
			nodes: []Group{
				nodes("cpu-{0}", 16, "", 0, 96, 0), nodes("misc-{0}", 56, "MISC", 8, 96, 0), nodes("t4-{0}", 100, "T4", 2, 96, 0),
				nodes("p100-{0}", 160, "P100", 2, 64, 0), nodes("v100-{0}", 48, "V100", 8, 96, 0),
			},
		},
		{Name: "pollux", About: "the cluster of Pollux (Qiao et al., OSDI 21): 16 nodes of 4 T4", nodes: []Group{nodes("", 16, "T4", 4, 0, 0)}},
		{
			Name:  "sia",
			About: "the mixed cluster of Sia (Subramanya et al., SOSP 23): 6 aws x 4, 2 dgx-ext x 8, 3 rtx x 8",
			nodes: []Group{nodes("aws-{0}", 6, "aws", 4, 0, 0), nodes("dgx-ext-{0}", 2, "dgx-ext", 8, 0, 0), nodes("rtx-{0}", 3, "rtx", 8, 0, 0)},
		},
		{
			Name:   "synergy",
			About:  "the cluster of the Synergy simulator (Mohan et al., OSDI 22): 16 nodes of 8 V100, 24 CPUs, 500 GB",
			levels: racks(16), nodes: []Group{nodes("", 16, "V100", 8, 24, 500)},
		},
	}
	all = append(all, networks()...)
	sort.Slice(all, func(i, k int) bool { return all[i].Name < all[k].Name })
	return all
}

// racks is a topology of racks of n nodes.
func racks(n int) []Level { return []Level{{Name: "rack", Nodes: n}} }

// nodes is a group of equal nodes; memory in GiB.
func nodes(name string, n int, typ string, gpus, cpus, memory int) Group {
	g := Group{Name: name, Count: n, CPU: unitMilli(cpus), Memory: unitGiB(memory)}
	if gpus > 0 {
		g.GPUs = []GPUs{{typ, gpus}}
	}
	return g
}

// virtualClusters are partitions of nodes of eight GPUs.
func virtualClusters(list string) []Group {
	var groups []Group
	for _, field := range strings.Fields(list) {
		name, text, _ := strings.Cut(field, "=")
		n, err := count(text, "nodes", MaxNodes)
		if err != nil {
			return nil // no list in this file is so written; a test makes every preset
		}
		groups = append(groups, partition(name, n))
	}
	return groups
}

// partition is a virtual cluster of n nodes of eight GPUs.
func partition(name string, n int) Group {
	g := nodes(name+"-{0}", n, UnnamedType, 8, 0, 0)
	g.Partition = name
	return g
}

func presetNamed(name string) (Preset, bool) {
	for _, p := range Presets() {
		if p.Name == name {
			return p, true
		}
	}
	return Preset{}, false
}

func presetNames() []string {
	var names []string
	for _, p := range Presets() {
		names = append(names, p.Name)
	}
	return names
}
