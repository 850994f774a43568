package clusterspec

import (
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/cluster"
)

// TestLayoutsInShorthand: the name of a layout gives each node its links, and they are written
// as that name again.
func TestLayoutsInShorthand(t *testing.T) {
	s, err := Load("2x8:V100/dgx1/96c+1x6:V100/summit")
	site := build(t, s, err)
	if l := site.Cluster.Node(1).Links.Between(4, 7); l != (cluster.Link{Class: cluster.NVLink, GBps: 50, Count: 2, Gen: 2}) {
		t.Errorf("link %+v", l)
	}
	again, err := Of(site.Cluster)
	if err != nil {
		t.Fatal(err)
	}
	if again.Nodes[0].Links.Preset != "dgx1" || again.Nodes[1].Links.Preset != "summit" || again.Nodes[0].CPU != 96000 {
		t.Errorf("%+v", again.Nodes)
	}
	for _, c := range []struct{ text, want string }{
		{"2x4:V100/dgx1", "links dgx1 are for 8 GPUs, the node has 4"},
		{"2x8:V100/ring", `"ring" is neither cores (96c) nor memory (720GiB)`},
		{"pool:8/dgx1", "a pooled node"},
	} {
		if _, err := Load(c.text); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %s", c.text, err, c.want)
		}
	}
}

// TestDescribeLinks: each layout is drawn once.
func TestDescribeLinks(t *testing.T) {
	s, err := Load("2x4:P100/minsky+1x2:T4/pcie+1x4:P100/minsky")
	var out strings.Builder
	if err := Describe(&out, build(t, s, err).Cluster); err != nil {
		t.Fatal(err)
	}
	_, got, _ := strings.Cut(out.String(), "\nlinks of ")
	if want := `3 nodes such as n0: minsky
      GPU0  GPU1  GPU2  GPU3
GPU0  X     NV2   SYS   SYS
GPU1  NV2   X     SYS   SYS
GPU2  SYS   SYS   X     NV2
GPU3  SYS   SYS   NV2   X
NV2   40 GB/s each way, 2 NVLinks
SYS   9 GB/s each way, between sockets

links of n2: pcie
      GPU0  GPU1
GPU0  X     PIX
GPU1  PIX   X
PIX   12 GB/s each way, through one PCIe switch
`; got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

// TestLinkErrors: what NVLinks have, others do not.
func TestLinkErrors(t *testing.T) {
	for link, want := range map[string]string{
		"{between: [0, 1], class: pcie, count: 2}":        "count and generation are those of NVLinks",
		"{between: [0, 1], generation: 12}":               "generation",
		"{between: [0, 1], count: 300}":                   "count",
		"{between: [0, 1], class: socket, generation: 1}": "its class is socket",
	} {
		_, err := ParseYAML("c.yaml", []byte("nodes: [{gpus: 2xA, links: ["+link+"]}]"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %s", link, err, want)
		}
	}
	s, err := ParseYAML("c.yaml", []byte("nodes: [{gpus: 2xA, links: [{between: [0, 1], count: 3, generation: 1}]}]"))
	if l := build(t, s, err).Cluster.Node(0).Links.Between(0, 1); l != (cluster.Link{Class: cluster.NVLink, GBps: 60, Count: 3, Gen: 1}) {
		t.Errorf("%+v", l)
	}
}
