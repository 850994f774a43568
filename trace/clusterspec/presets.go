package clusterspec

import (
	"fmt"
	"sort"
	"strings"
)

// Preset is a cluster whose figures are built in.
type Preset struct {
	Name   string
	About  string // one line: what it is, and where its figures come from
	levels []Level
	nodes  []Group
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
	sort.Slice(all, func(i, k int) bool { return all[i].Name < all[k].Name })
	return all
}

// racks is a topology of racks of n nodes.
func racks(n int) []Level { return []Level{{"rack", n}} }

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
