package clusterspec

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/internal/shared"
)

// TestFilesOfOthers: as many nodes and GPUs are read as the published files
// have.
func TestFilesOfOthers(t *testing.T) {
	data := shared.Path(t, "data")
	for _, x := range []struct {
		file              string
		nodes, gpus, pool int
		levels            string
	}{
		{"alibaba_openb2023/openb_node_list_gpu_node.csv", 1213, 6212, 0, ""},
		{"alibaba_openb2023/openb_node_list_all_node.csv", 1523, 6212, 0, ""},
		{"alibaba_pai2020/pai_machine_spec.tar.gz", 1897, 6742, 0, ""},
		{"alibaba_spot2026/node_info_df.csv", 4278, 10412, 0, ""},
		{"alibaba_lingjun2023/topo.csv", 847, 6776, 0, "DSW PSW ASW"},
		{"helios/venus_vc_config_lucid.csv", 135, 1080, 15, ""},
		{"philly/philly_vc_nodes.csv", 352, 2816, 11, ""},
		{"tiresias/n160g8.csv", 160, 1280, 0, "rack"},
		{"tiresias/cluster_spec.csv", 16, 64, 0, "rack"},
		{"muri/cluster_spec/n8g8.csv", 8, 64, 0, "rack"},
		{"synergy/configs/default_cluster.ini", 16, 128, 0, "rack"},
		{"synergy/configs/philly_cluster.ini", 64, 512, 0, "rack"},
	} {
		s, err := Load(filepath.Join(data, x.file))
		c := build(t, s, err).Cluster
		var levels []string
		for _, l := range s.Levels {
			levels = append(levels, l.Name)
		}
		if c.Nodes() != x.nodes || s.GPUs() != x.gpus || c.Pools() != 1+x.pool || strings.Join(levels, " ") != x.levels {
			t.Errorf("%s: %d nodes, %d GPUs, %d pools, levels %v", x.file, c.Nodes(), s.GPUs(), c.Pools(), levels)
		}
		sameAgain(t, s)
	}
}

// TestOpenbNodes: every node has the name, the CPUs, the memory and the GPUs of
// its line.
func TestOpenbNodes(t *testing.T) {
	const path = "data/alibaba_openb2023/openb_node_list_all_node.csv"
	s, err := ReadFile(shared.Path(t, path))
	c := build(t, s, err).Cluster
	for i, l := range shared.Rows(t, path)[1:] {
		n := c.Node(cluster.NodeID(i))
		gpus, typ := "0", ""
		if len(n.GPUs) > 0 {
			gpus, typ = unit.Milli(1000*n.GPUs[0].Count).String(), c.Type(n.GPUs[0].Type).Name
		}
		if n.Name != l[0] || (1000*n.CPU).String() != l[1] || (unit.Milli(n.Memory/unit.MiB)*1000).String() != l[2] || gpus != l[3] || typ != l[4] {
			t.Fatalf("line %v becomes %+v", l, n)
		}
	}
}

// TestRacksAreSwitches: the nodes of one switch stand together.
func TestRacksAreSwitches(t *testing.T) {
	s, err := ReadText("c", []byte("num_switch,num_node_p_switch,num_gpu_p_node,num_cpu_p_node,mem_p_node\r\n2,3,4,40,256\r\n"))
	c := build(t, s, err).Cluster
	if c.Distance(0, 2) != 1 || c.Distance(0, 3) != 2 || c.Node(5).CPU != 40_000 || c.Node(5).Memory != 256*unit.GiB {
		t.Errorf("distances %d, %d; %+v", c.Distance(0, 2), c.Distance(0, 3), c.Node(5))
	}
}

func TestFileErrors(t *testing.T) {
	tiresias := "num_switch,num_node_p_switch,num_gpu_p_node,num_cpu_p_node,mem_p_node\n"
	for text, want := range map[string]string{
		"sn,cpu_milli,memory_mib,gpu,model\na,1,1,many,T4":           `f (openb node list): line 2: "many" is not a number of GPUs`,
		"sn,cpu_milli,memory_mib,gpu,model\na,1":                     "wrong number of fields",
		"sn,cpu_milli,memory_mib,gpu,model\na,1,9999999999,8,T4":     "MiB of memory",
		"sn,cpu_milli,memory_mib,gpu,model\na,1,1,8,T4\na,1,1,8,T4":  `two nodes are called "a"`,
		"sn,cpu_milli,memory_mib,gpu,model\n":                        "the cluster has no nodes",
		tiresias + "1,2,8,1,1\n1,2,8,1,1":                            "line 3: a second cluster",
		tiresias + "99999,99999,8,1,1":                               "from 1 to 200000 nodes are allowed",
		"vc,node num\na,-1":                                          `"-1" is not a number of nodes`,
		",num\n,3":                                                   "is not a name of a virtual cluster",
		"gpu_model,gpu_capacity_num,cpu_num,node_name\nA10,500,1,1":  "cannot be told apart",
		"[CLUSTER]\nracks = 2\n":                                     "2 racks of 0 servers",
		"[CLUSTER]\nservers_per_rack = many":                         `line 2: servers_per_rack is "many"`,
		"machine,gpu_type,cap_cpu,cap_mem,cap_gpu\na,T4,96,lots,2":   `"lots" is not a number of GB`,
		"ip,DSW,PSW,ASW\na,b,c,d/e":                                  "write names with / between them",
		"gpu_model,gpu_capacity_num,cpu_num,node_name\nA10,1,1,{1}2": "braces are not allowed",
	} {
		_, err := ReadText("f", []byte(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n%v\nit should say %q", text, err, want)
		}
	}
}

func TestLoadErrors(t *testing.T) {
	for arg, want := range map[string]string{
		"missing.yaml":      "there is no file",
		"some/where":        "there is no file",
		"../../examples":    "is a folder",
		"philly2":           "no preset",
		"formats_test.go":   "formats_test.go:",
		"../../LICENSE":     "../../LICENSE:",
		"testdata/none.csv": "there is no file",
	} {
		_, err := Load(arg)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; it should say %q", arg, err, want)
		}
	}
}

// TestPresets: every preset can be built and is what it says.
func TestPresets(t *testing.T) {
	want := map[string][3]int{ // nodes, GPUs, partitions
		"philly": {552, 2490, 0}, "philly-qssf": {352, 2816, 11}, "venus": {133, 1064, 0}, "earth": {143, 1144, 0},
		"saturn": {262, 2096, 0}, "uranus": {264, 2112, 0}, "helios-venus-lucid": {135, 1080, 15}, "pai": {1897, 6742, 0},
		"pai-hetero": {380, 1352, 0}, "pollux": {16, 64, 0}, "sia": {11, 64, 0}, "synergy": {16, 128, 0},
		"cassini": {24, 24, 0}, "clos-2": {64, 512, 0}, "clos-3": {5000, 40000, 0}, "lingjun": {847, 6776, 0},
	}
	for _, p := range Presets() {
		s, err := Load(p.Name)
		c := build(t, s, err).Cluster
		if got := [3]int{c.Nodes(), s.GPUs(), c.Pools() - 1}; got != want[p.Name] {
			t.Errorf("%s: %v instead of %v", p.Name, got, want[p.Name])
		}
		if p.About == "" {
			t.Errorf("%s does not say what it is", p.Name)
		}
		sameAgain(t, s)
		delete(want, p.Name)
	}
	if len(want) > 0 {
		t.Errorf("missing: %v", want)
	}
}

// TestPresetsAgreeWithFiles: built-in figures are those of the published files.
func TestPresetsAgreeWithFiles(t *testing.T) {
	data := shared.Path(t, "data")
	for preset, file := range map[string]string{
		"helios-venus-lucid": "helios/venus_vc_config_lucid.csv", "philly-qssf": "philly/philly_vc_nodes.csv",
	} {
		a, err := Load(preset)
		first := build(t, a, err)
		b, err := Load(filepath.Join(data, file))
		second := build(t, b, err)
		if table(t, first.Cluster) != table(t, second.Cluster) {
			t.Errorf("%s is\n%s\n%s is\n%s", preset, table(t, first.Cluster), file, table(t, second.Cluster))
		}
	}
	shapes := func(c *cluster.Cluster) map[shape]int {
		count := map[shape]int{}
		for id := range cluster.NodeID(c.Nodes()) {
			count[shapeOf(c, id)]++
		}
		return count
	}
	a, err := Load("pai")
	first := shapes(build(t, a, err).Cluster)
	b, err := Load(filepath.Join(data, "alibaba_pai2020/pai_machine_spec.tar.gz"))
	for s, n := range shapes(build(t, b, err).Cluster) {
		if first[s] != n {
			t.Errorf("pai has %d nodes of shape %v, the file %d", first[s], s, n)
		}
	}
}

func FuzzReadText(f *testing.F) {
	for _, text := range []string{
		"sn,cpu_milli,memory_mib,gpu,model\nn-0,64000,262144,2,P100\nn-1,64000,262144,2,P100\n",
		"num_switch,num_node_p_switch,num_gpu_p_node,num_cpu_p_node,mem_p_node\n5,32,8,128,256",
		"vc,node num\na,3\nb,2\n", ",num\na,3\n", "gpu_model,gpu_capacity_num,cpu_num,node_name\nA10,1,128,2\nA10,1,128,3\n",
		"7399a758eb02bae1a3621236,CPU,96,512,0\n75c536d5ba60528b3ef3ae40,T4,96,512,2\n", "ip,DSW,PSW,ASW\nx,G6,P10,S14\ny,G6,P10,S14\n",
		"[CLUSTER]\t\n# 112 GPUs\nracks = 1\nservers_per_rack = 16\ngpus_per_server = 8\ncpus_per_server = 32\ndram_per_server = 500\n",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := ReadText("fuzz", text)
		if err != nil {
			return
		}
		sameAgain(t, s)
	})
}
