package clusterspec

import (
	"bytes"
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
)

// build makes a Spec, or fails the test.
func build(t testing.TB, s *Spec, err error) *Site {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	site, err := s.Build()
	if err != nil {
		t.Fatal(err)
	}
	return site
}

// table is what Describe writes.
func table(t testing.TB, c *cluster.Cluster) string {
	t.Helper()
	var w bytes.Buffer
	if err := Describe(&w, c); err != nil {
		t.Fatal(err)
	}
	return w.String()
}

func TestParse(t *testing.T) {
	for _, x := range []struct {
		text              string
		nodes, gpus, pool int // pool: partitions
		cpu               unit.Milli
		memory            unit.Bytes
		types             string
	}{
		{"16x8:V100", 16, 128, 0, 0, 0, "V100"},
		{"16x8", 16, 128, 0, 0, 0, "gpu"},
		{" 2x8:V100 + 4x4:P100 ", 6, 32, 0, 0, 0, "V100 P100"},
		{"16x8:V100/96c/720GiB", 16, 128, 0, 96000, 720 * unit.GiB, "V100"},
		{"16x8:V100/720GiB/1.5c", 16, 128, 0, 1500, 720 * unit.GiB, "V100"},
		{"n8g8", 8, 64, 0, 0, 0, "gpu"},
		{"n1g4:K80/128c", 1, 4, 0, 128000, 0, "K80"},
		{"g300", 1, 300, 0, 6966000, 0, "gpu"},
		{"64", 1, 64, 0, 0, 0, "gpu"},
		{"64:A100", 1, 64, 0, 0, 0, "A100"},
		{"pool:2490", 1, 2490, 0, 0, 0, "gpu"},
		{"pool:20:T4/640c/2560GiB", 1, 20, 0, 640000, 2560 * unit.GiB, "T4"},
		{"vcA=4x8,vcB=2x8", 6, 48, 2, 0, 0, "gpu"},
		{"vcA=4x8:V100+1x4:P100, vcB=2x8:V100, 3x1", 10, 55, 2, 0, 0, "V100 P100 gpu"},
		{"a=64,b=pool:32", 2, 96, 2, 0, 0, "gpu"},
	} {
		s, err := Parse(x.text)
		c := build(t, s, err).Cluster
		gpus := 0
		for id := range cluster.NodeID(c.Nodes()) {
			gpus += c.NodeGPUs(id)
		}
		var types []string
		for i := range c.Types() {
			types = append(types, c.Type(cluster.TypeID(i)).Name)
		}
		if c.Nodes() != x.nodes || gpus != x.gpus || s.GPUs() != x.gpus || c.Pools() != 1+x.pool || strings.Join(types, " ") != x.types {
			t.Errorf("%q: %d nodes, %d GPUs, %d pools, types %v", x.text, c.Nodes(), gpus, c.Pools(), types)
		}
		if n := c.Node(0); n.CPU != x.cpu || n.Memory != x.memory {
			t.Errorf("%q: %v CPUs, %v memory", x.text, n.CPU, n.Memory)
		}
	}
}

// TestParseErrors: an error shows what was not understood, and what is allowed.
func TestParseErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":                "no cluster is given",
		"x8":              `"" is not a number of nodes`,
		"16x":             `"" is not a number of GPUs`,
		"16y8":            "it is no number of nodes and GPUs",
		"0x8":             "0 nodes: from 1 to 200000 are allowed",
		"2x8+fast":        `"fast" is not understood`,
		"999999x8":        "999999 nodes: from 1 to 200000",
		"200000x64":       "more than 10000000 GPUs",
		"2x100":           "more than 64 of a node cannot be told apart",
		"pool:3000000":    "write a number from 1 to 2000000",
		"2x8/96cores":     `"96cores" is neither cores (96c) nor memory (720GiB)`,
		"2x8/c":           `"c" is not a number of cores`,
		"2x8:":            "the GPU type is missing",
		"2x8:a|b":         "without |",
		"=2x8":            "the name of the partition is missing",
		"a\x00=2x8":       "signs that are not allowed",
		"2x8,":            "is not understood",
		"n8":              "write nodes and GPUs as n8g8",
		"phily":           "or a preset: cassini, ",
		"-1x8":            `"-1" is not a number of nodes`,
		"2x8/99999999GiB": "are not an amount that a node has",
	} {
		_, err := Parse(text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v; it should say %q", text, err, want)
		}
	}
}

// TestRack: the nodes of nNgG stand in one rack, those of NxG nowhere.
func TestRack(t *testing.T) {
	s, err := Parse("n4g2")
	c := build(t, s, err).Cluster
	if c.Domains() != 2 || len(c.DomainNodes(1)) != 4 {
		t.Errorf("%d places, %d nodes in the first", c.Domains(), len(c.DomainNodes(1)))
	}
	s, err = Parse("4x2")
	if c := build(t, s, err).Cluster; c.Domains() != 1 {
		t.Errorf("%d places", c.Domains())
	}
}

func TestPatterns(t *testing.T) {
	for _, x := range []struct {
		pattern string
		i       int
		want    string
	}{
		{"a", 0, "a"}, {"a{0}", 12, "a12"}, {"a{007}b", 5, "a012b"}, {"{9}", 3, "12"}, {"{00}", 100, "100"}, {"r-{0}.x", 1, "r-1.x"},
	} {
		p, err := parsePattern(x.pattern)
		if err != nil || p.name(x.i) != x.want {
			t.Errorf("%s at %d is %q (%v)", x.pattern, x.i, p.name(x.i), err)
		}
	}
	for _, bad := range []string{"a{", "a}", "{}", "{x}", "{1}{2}", "{-1}", "{9999999999}", "a{1{2}}"} {
		if _, err := parsePattern(bad); err == nil {
			t.Errorf("no error for %q", bad)
		}
	}
	for name, want := range map[string]string{"node-0099": "node-{0099}", "7": "{7}", "a": "", "a{1}2": "", "": ""} {
		if got, _ := patternOf(name); got != want {
			t.Errorf("%q counts on as %q", name, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{
		"16x8:V100/96c/720GiB", "vcA=4x8,vcB=2x8", "2x8:V100+4x4:P100", "n8g8", "g300", "64", "pool:2490", "philly", "a=1x1:b/1c/1G+2x2,c=pool:3",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Parse(text)
		if err != nil {
			return
		}
		sameAgain(t, s)
	})
}
