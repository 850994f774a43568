package clusterspec

import (
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/label"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/internal/longtest"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/tenant"
)

type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

// sameAgain checks that a description is the same after it was written and read
// again, and, where it is small, that the clusters are equal.
func sameAgain(t failer, s *Spec) {
	t.Helper()
	text := s.YAML()
	again, err := ParseYAML("again", text)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if !reflect.DeepEqual(s, again) {
		t.Fatalf("%+v\nbecomes\n%+v\nby\n%s", s, again, text)
	}
	if string(again.YAML()) != string(text) {
		t.Fatalf("%s\nis written again as\n%s", text, again.YAML())
	}
	nodes, devices := 0, 0
	for i := range s.Nodes {
		nodes += s.Nodes[i].Count
		if !s.Nodes[i].Pooled {
			devices += s.Nodes[i].Count * s.Nodes[i].gpus()
		}
	}
	if nodes > 2000 || devices > 20_000 {
		return
	}
	a, err := s.Build()
	if err != nil {
		t.Fatalf("checked, but: %v\n%s", err, text)
	}
	b, err := again.Build()
	if err != nil || !reflect.DeepEqual(a, b) {
		t.Fatalf("two clusters from\n%s (%v)", text, err)
	}
}

// anyName draws names with all signs that need care.
func anyName() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.StringMatching(`[a-zA-Z0-9_.-]{1,8}`),
		rapid.SampledFrom([]string{"true", "null", "~", "1e3", "0x10", "007", "- a", "a: b", "a #b", `q"u\o'te`, "é ü", "[x]", "{y", "*z", "&a", "!t", "%d", "@", "`", "?", "|", ">", "a,b", "12:30", "2001-01-01", ".inf", "=", "<<"}),
		rapid.StringN(1, 6, 24),
	).Filter(goodName)
}

// distinct draws different names that satisfy a condition.
func distinct(r *rapid.T, label string, least, most int, ok func(string) bool) []string {
	return reset(rapid.SliceOfNDistinct(anyName().Filter(ok), least, most, rapid.ID).Draw(r, label))
}

func noneOf(signs string) func(string) bool {
	return func(s string) bool { return !strings.ContainsAny(s, signs) }
}

// anySpec draws a description with every kind of content.
func anySpec(r *rapid.T) *Spec {
	s := &Spec{HalfLife: time.Duration(rapid.Int64Range(0, 1e15).Draw(r, "half-life"))}
	for _, name := range distinct(r, "types", 1, 4, noneOf("|")) {
		s.Types = append(s.Types, cluster.GPUType{
			Name: name, Memory: unit.Bytes(rapid.Int64Range(0, 1<<50).Draw(r, "GPU memory")), Speed: rapid.Float64Range(0, 1000).Draw(r, "speed"),
		})
	}
	for _, name := range distinct(r, "levels", 0, 3, func(s string) bool { return s != "cluster" }) {
		s.Levels = append(s.Levels, Level{name, rapid.IntRange(0, 3).Draw(r, "nodes"), rapid.SampledFrom([]cluster.Uplink{{}, {GBps: 400}, {GBps: 12.5, Latency: 1500}}).Draw(r, "uplink")})
	}
	s.Partitions = distinct(r, "partitions", 0, 3, goodName)
	for i := range rapid.IntRange(1, 5).Draw(r, "groups") {
		s.Nodes = append(s.Nodes, anyGroup(r, s, i))
	}
	names := distinct(r, "tenants", 0, 5, goodName)
	for i, name := range names {
		t := Tenant{Name: name, Weight: rapid.SampledFrom([]float64{0, 2, 0.25}).Draw(r, "weight")}
		if k := rapid.IntRange(-1, len(names)-1).Draw(r, "parent"); k >= 0 && k != i {
			t.Parent = names[k]
		}
		t.Limit = rapid.SampledFrom([]Share{{}, {Percent: 33.3}, {GPUs: 250}, {GPUs: 1 << 30}}).Draw(r, "limit")
		t.Guarantee = rapid.SampledFrom([]Share{{}, {}, {Percent: 12.5}, {GPUs: 100}}).Draw(r, "guarantee")
		s.Tenants = append(s.Tenants, t)
	}
	cost := func() perf.Cost {
		d := func() time.Duration {
			return rapid.SampledFrom([]time.Duration{0, 1, time.Second, 90 * time.Minute, 1<<55 + 1}).Draw(r, "cost")
		}
		return perf.Cost{Start: d(), Checkpoint: d(), Restore: d(), Migrate: d(), Resize: d()}
	}
	s.Costs.Base = cost()
	for i := range rapid.IntRange(0, 2).Draw(r, "tiers") {
		s.Costs.Tiers = append(s.Costs.Tiers, perf.Tier{GPUs: 2 + 7*i, Cost: cost()})
	}
	return s
}

func anyGroup(r *rapid.T, s *Spec, i int) Group {
	g := Group{
		Name: fmt.Sprintf("%s-%d-{%02d}", rapid.SampledFrom([]string{"a", "é:", "#"}).Draw(r, "name"), i, i), Count: rapid.IntRange(1, 9).Draw(r, "count"),
		CPU: unit.Milli(rapid.Int64Range(0, 1<<40).Draw(r, "cpu")), Memory: unit.Bytes(rapid.Int64Range(0, 1<<50).Draw(r, "memory")),
		Pooled: rapid.Bool().Draw(r, "pooled"),
		Slots:  rapid.SampledFrom([]job.Slots{"", "", "rdma=1", "mem/huge=64|rdma=8"}).Draw(r, "slots"),
	}
	if rapid.IntRange(0, 3).Draw(r, "others") == 0 {
		g.Foreign = Foreign{
			CPU: unit.Milli(rapid.Int64Range(0, 1<<39).Draw(r, "cpu of others")), Memory: unit.Bytes(rapid.Int64Range(0, 1<<40).Draw(r, "memory of others")),
			Slots: rapid.SampledFrom([]job.Slots{"", "rdma=1"}).Draw(r, "slots of others"),
		}
	}
	if rapid.IntRange(0, 5).Draw(r, "nameless") == 0 {
		g.Name = ""
	}
	for range rapid.IntRange(0, 2).Draw(r, "GPU groups") {
		most := 8
		if g.Pooled {
			most = maxPooled / 100
		}
		g.GPUs = append(g.GPUs, GPUs{rapid.SampledFrom(s.Types).Draw(r, "type").Name, rapid.IntRange(1, most).Draw(r, "GPUs")})
	}
	if len(s.Partitions) > 0 && rapid.Bool().Draw(r, "in a partition") {
		g.Partition = rapid.SampledFrom(s.Partitions).Draw(r, "partition")
	}
	if rapid.Bool().Draw(r, "labelled") {
		g.Labels = []label.Label{{Key: "a.b/c", Value: rapid.SampledFrom([]string{"", "1", "yes"}).Draw(r, "value")}, {Key: "zone", Value: "a"}}
		g.Taints = []label.Taint{{Key: "spot", Value: "1", Effect: label.NoSchedule}, {Key: "x", Effect: label.PreferNoSchedule}}
	}
	g.Place = distinct(r, "place", 0, len(s.Levels), noneOf("/"))
	if rapid.Bool().Draw(r, "later") {
		g.At = time.Duration(rapid.Int64Range(1, 1e16).Draw(r, "at"))
	} else {
		g.Health = rapid.SampledFrom([]cluster.Health{cluster.Up, cluster.Cordoned, cluster.Down}).Draw(r, "health")
		g.Power = rapid.SampledFrom([]cluster.Power{cluster.Awake, cluster.Asleep, cluster.Booting}).Draw(r, "power")
	}
	if n := g.gpus(); !g.Pooled && n > 1 {
		switch rapid.IntRange(0, 3).Draw(r, "links") {
		case 1:
			g.Links.Preset = rapid.SampledFrom([]string{"nvswitch", "pcie"}).Draw(r, "preset")
		case 2:
			class := cluster.LinkClass(rapid.IntRange(int(cluster.NVLink), int(cluster.CrossSocket)).Draw(r, "class"))
			g.Links.Pairs = []Link{{0, n - 1, cluster.Link{Class: class, GBps: rapid.Float64Range(0, 900).Draw(r, "speed")}}}
			if class == cluster.NVLink {
				g.Links.Pairs[0].Count = uint8(rapid.IntRange(0, cluster.MaxNVLinks).Draw(r, "NVLinks"))
				g.Links.Pairs[0].Gen = uint8(rapid.IntRange(0, cluster.MaxNVLinkGen).Draw(r, "generation"))
			}
		}
	}
	return g
}

// TestYAMLAgain: what is written is read as the same description, and makes an
// equal cluster.
func TestYAMLAgain(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		s := anySpec(r)
		if s.finish() != nil {
			return
		}
		sameAgain(r, s)
	})
}

// TestOf: a cluster that is described makes a cluster that looks the same.
func TestOf(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		s := anySpec(r)
		for i := range s.Nodes {
			s.Nodes[i].At = 0
		}
		if s.finish() != nil {
			return
		}
		site, err := s.Build()
		if err != nil {
			r.Fatal(err)
		}
		of, err := Of(site.Cluster)
		if err != nil {
			r.Fatal(err)
		}
		again, err := of.Build()
		if err != nil {
			r.Fatal(err)
		}
		sameCluster(r, site.Cluster, again.Cluster)
		sameAgain(r, of)
	})
}

// sameCluster compares node by node; places may be numbered otherwise.
func sameCluster(r *rapid.T, a, b *cluster.Cluster) {
	if a.Nodes() != b.Nodes() || a.Pools() != b.Pools() || a.Types() != b.Types() {
		r.Fatalf("%d nodes, %d pools, %d types become %d, %d, %d", a.Nodes(), a.Pools(), a.Types(), b.Nodes(), b.Pools(), b.Types())
	}
	path := func(c *cluster.Cluster, d cluster.DomainID) string {
		out := ""
		for d > 0 {
			level, name, parent := c.Domain(d)
			out, d = level+" "+name+"/"+out, parent
		}
		return out
	}
	for id := range cluster.NodeID(a.Nodes()) {
		x, y := *a.Node(id), *b.Node(id)
		if path(a, x.Domain) != path(b, y.Domain) {
			r.Fatalf("%s stands in %q, then in %q", x.Name, path(a, x.Domain), path(b, y.Domain))
		}
		x.Domain, y.Domain = 0, 0
		if !reflect.DeepEqual(x, y) || a.Health(id) != b.Health(id) || a.Power(id) != b.Power(id) {
			r.Fatalf("%+v becomes %+v", x, y)
		}
	}
}

// TestExample reads the example that comes with the program.
func TestExample(t *testing.T) {
	s, err := Load("../../examples/cluster.yaml")
	site := build(t, s, err)
	c := site.Cluster
	if c.Nodes() != 13 || s.GPUs() != 102 || len(site.Arrivals) != 2 {
		t.Errorf("%d nodes, %d GPUs, %d arrive later", c.Nodes(), s.GPUs(), len(site.Arrivals))
	}
	if n := c.Node(0); n.Name != "a100-00" || n.CPU != 128000 || n.Memory != unit.TiB {
		t.Errorf("first node: %+v", n)
	}
	if l := c.Node(8).Links.Between(1, 0); l.Class != cluster.NVLink || l.GBps != 50 {
		t.Errorf("link of %s: %+v", c.Node(8).Name, l)
	}
	if c.Health(12) != cluster.Cordoned || c.PoolName(c.Node(12).Pool) != "prod" {
		t.Errorf("last node: %+v", c.Node(12))
	}
	if d := c.Distance(0, 3); d != 1 {
		t.Errorf("nodes of one rack are %d apart", d)
	}
	if d := c.Distance(0, 4); d != 2 {
		t.Errorf("nodes of neighbouring racks are %d apart", d)
	}
	if a := site.Arrivals[0]; a.At != 12*time.Hour || a.Spec.Name != "late-0" {
		t.Errorf("first arrival: %+v", a)
	}
	vision, _ := site.Tenants.Lookup("vision")
	research, _ := site.Tenants.Lookup("research")
	lab, _ := site.Tenants.Lookup("lab")
	if v := site.Tenants.At(vision); v.Parent != research || v.Guarantee != 24000 || v.Limit != 64000 || v.Weight != 1 {
		t.Errorf("tenant: %+v", v)
	}
	if site.Tenants.At(research).Guarantee != 51000 || site.Tenants.At(lab).Limit != 16000 || site.Tenants.At(research).Limit != tenant.Unlimited {
		t.Errorf("tenants: %+v, %+v", site.Tenants.At(research), site.Tenants.At(lab))
	}
	if cost := s.Costs.Of(16); cost != (perf.Cost{Start: 10e9, Checkpoint: 60e9, Restore: 90e9, Migrate: 30e9, Resize: 30e9}) {
		t.Errorf("costs of 16 GPUs: %+v", cost)
	}
	sameAgain(t, s)
}

// TestYAMLErrors: an error names the line and what is wrong there.
func TestYAMLErrors(t *testing.T) {
	for _, x := range [][3]string{
		{"nodes:\n  - {count: 2, gpu: 8}", ":2:16", `a group of nodes has no key "gpu"; known are: at, count, cpus, foreign, gpus, `},
		{"nodes:\n  - count: two", ":2:12", `"two": write a whole number from 1 to 200000`},
		{"nodes:\n  - gpus: 8xA100\n    memory: much", ":3:13", `"much" is not an amount of memory`},
		{"nodes:\n  - gpus: eight", ":2:11", `"eight" is not a number of GPUs; write 8xV100`},
		{"nodes:\n  - gpus: [{type: A, count: 0}]", ":2:29", "write a whole number from 1 to"},
		{"node:\n  - gpus: 8", ":1:1", `a cluster has no key "node"; known are: costs, gpu-types, half-life, nodes, `},
		{"nodes: 5", ":1:8", "nodes are written as a list"},
		{"nodes:\n  - 5", ":2:5", "a group of nodes is written as keys and values"},
		{"nodes:\n  - gpus: 2\n    health: ill", ":3:13", `"ill": write one of up, cordoned, down`},
		{"nodes:\n  - gpus: 2\n    pooled: maybe", ":3:13", "write true or false"},
		{"nodes:\n  - gpus: 2\n    links:\n      - between: [0]", ":4:", "a link is between two GPUs"},
		{"nodes:\n  - gpus: 2\n    cpus:", ":3:", "the value is missing"},
		{"nodes:\n  - gpus: 2\n    gpus: 3", ":3:5", "already defined"},
		{"nodes: [{gpus: 2}]\nhalf-life: week", ":2:12", `"week" is not a duration`},
		{"nodes: [{gpus: 2}]\ntenants: [{name: a, guarantee: all}]", ":2:32", `"all": write a number of GPUs, or a percentage`},
		{"nodes: &a [{gpus: 2}]\ntenants: *a", ":1:8", "anchors, aliases, tags and directives are not allowed"},
		{"nodes: [{gpus: 2}]\n---\nnodes: [{gpus: 2}]", ":3:6", "a second document"},
		{"a: [", ":1:", ""},
		{strings.Repeat("[", 100_000), ":1:21", "nested too deeply"},
		{strings.Repeat("- ", 100_000), ":1:", "nested too deeply"},
		{"nodes: " + strings.Repeat("{a: ", 100_000), ":1:", "nested too deeply"},
	} {
		_, err := ParseYAML("c.yaml", []byte(x[0]))
		if err == nil || !strings.Contains(err.Error(), x[1]) || !strings.Contains(err.Error(), x[2]) || !strings.HasPrefix(err.Error(), "c.yaml:"+x[1][1:]) {
			t.Errorf("%s\n%v\nit should say %s %s", x[0][:min(len(x[0]), 100)], err, x[1], x[2])
		}
	}
}

// TestChecks: descriptions that are well written but cannot be.
func TestChecks(t *testing.T) {
	for text, want := range map[string]string{
		"# nothing": "the file is empty",
		"racks: 4":  "the cluster has no nodes",
		"nodes: [{gpus: 8, partition: b}]\npartitions: [a]":                                                              `partition "b" is not among partitions: a`,
		"nodes: [{gpus: 8xB}]\ngpu-types: [A]":                                                                           `GPU type "B" is not among gpu-types`,
		"nodes: [{name: a, count: 2}]":                                                                                   "need a counter in their name, such as a{0}",
		"nodes: [{name: a}, {name: a}]":                                                                                  `two nodes are called "a"`,
		"nodes: [{name: n1}, {count: 1}, {count: 1}]":                                                                    `two nodes are called "n1"`,
		"nodes: [{gpus: 8}]\nracks: 2\ntopology: [rack]":                                                                 "give either racks or topology",
		"nodes: [{gpus: 8, place: a/b}]\ntopology: [rack]":                                                               "place a/b has 2 levels, the topology has 1",
		"nodes: [{gpus: 8, place: a/b/c/d}]":                                                                             "has 4 levels, the topology has 0",
		"nodes: [{gpus: 8, place: a//c}]":                                                                                "write names with / between them",
		"nodes: [{gpus: 4, links: dgx1}]":                                                                                "links dgx1 are for 8 GPUs, the node has 4",
		"nodes: [{gpus: 4, links: ring}]":                                                                                `unknown links "ring"`,
		"nodes: [{gpus: 4, pooled: true, links: pcie}]":                                                                  "pooled node are not told apart",
		"nodes: [{gpus: 4, links: [{between: [0, 4]}]}]":                                                                 "the node has GPUs 0 to 3",
		"nodes: [{gpus: 4, links: [{between: [0, 1], class: same}]}]":                                                    "unknown class",
		"nodes: [{gpus: 4, at: 1h, health: down}]":                                                                       "nodes that arrive later arrive up and awake",
		"nodes: [{gpus: 100}]":                                                                                           "write pooled: true",
		"nodes: [{count: 150000, gpus: 64}, {count: 150000, gpus: 64}]":                                                  "more than 200000 nodes",
		"nodes: [{count: 190000, gpus: 64}]":                                                                             "more than 10000000 GPUs",
		"nodes: [{gpus: 8}]\ntenants: [{name: a, parent: b}]":                                                            `its parent "b" is not a tenant`,
		"nodes: [{gpus: 8}]\ntenants: [{name: a, parent: b}, {name: b, parent: a}]":                                      "below itself",
		"nodes: [{gpus: 8}]\ntenants: [{name: a}, {name: a}]":                                                            `tenant "a" is given twice`,
		"nodes: [{gpus: 8}]\ntenants: [{name: a, guarantee: 6}, {name: b, guarantee: 50%}]":                              "guaranteed 10 GPUs together, the cluster has 8",
		"nodes: [{gpus: 8}]\ntenants: [{name: a, guarantee: 2}, {name: b, parent: a, guarantee: 3}]":                     `tenants below "a" are guaranteed 3 GPUs together, it has 2`,
		"nodes: [{gpus: 8}]\ntenants: [{name: a, guarantee: 4, limit: 25%}]":                                             "its limit of 2 GPUs is below its guarantee of 4",
		"nodes: [{gpus: 8}]\ntenants: [{name: a, weight: -1}]":                                                           "weight -1",
		"nodes: [{gpus: 8}]\ncosts: {tiers: [{gpus: 8}, {gpus: 8}]}":                                                     "increasing order of GPUs",
		"nodes: [{gpus: 8}]\ncosts: {start: -1s}":                                                                        "cannot take -1s",
		"nodes: [{gpus: 8}]\nhalf-life: -1d":                                                                             "half-life",
		"nodes: [{gpus: 8}]\ngpu-types: [{name: gpu, speed: .nan}]":                                                      "speed",
		"nodes: [{gpus: 8}]\ntenants: [{name: a, weight: 0}]":                                                            "weight 0: write a number above 0",
		"nodes: [{gpus: 8}]\ngpu-types: [{name: gpu, speed: 0}]":                                                         "speed 0: write a number above 0",
		"nodes: [{gpus: 8, links: [{between: [0, 1], class: nvlink, speed: 0}]}]":                                        "speed 0: write a number above 0",
		"nodes: [{gpus: 8}]\ngpu-types: [gpu, gpu]":                                                                      "given twice",
		"nodes: [{gpus: 8}]\ntopology: [rack, rack]":                                                                     "given twice",
		"nodes: [{gpus: 8}]\npartitions: [a, a]":                                                                         "given twice",
		"nodes: [{gpus: 8}]\ntopology: [" + strings.Repeat("a", 201) + "]":                                               "write a name such as rack",
		"nodes: [{gpus: 8, cpus: 99999999999999}]":                                                                       "not an amount that a node has",
		"gpu-types: [" + strings.TrimSuffix(numbered("t%d, ", 65), ", ") + "]\nnodes: [{gpus: 1xt1}]":                    "at most 64",
		"nodes: [{gpus: [" + strings.TrimSuffix(numbered("1xt%d, ", 66), ", ") + "]}]":                                   "at most 64",
		"nodes: [{gpus: 8}]\ntenants: [" + strings.TrimSuffix(numbered("{name: t%d, parent: t%[2]d}, ", 80), ", ") + "]": "64 levels deep",
	} {
		_, err := ParseYAML("c.yaml", []byte(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n%v\nit should say %q", text, err, want)
		}
	}
}

// TestTooLong: what could not be read again is not accepted either.
func TestTooLong(t *testing.T) {
	longtest.Skip(t)
	if _, err := ParseYAML("c", make([]byte, maxYAML+1)); err == nil || !strings.Contains(err.Error(), "at most 4 MiB") {
		t.Errorf("%v", err)
	}
	var b strings.Builder
	b.WriteString("sn,cpu_milli,memory_mib,gpu,model\n")
	for i := range 90_000 {
		fmt.Fprintf(&b, "n%d,%d,1,1,T4\n", i, 1000+i%2)
	}
	if _, err := ReadText("c", []byte(b.String())); err == nil || !strings.Contains(err.Error(), "at most 4 MiB") {
		t.Errorf("%v", err)
	}
}

// numbered repeats a format with the numbers from 0, and the one after.
func numbered(format string, n int) string {
	var b strings.Builder
	for i := range n {
		if strings.Contains(format, "[2]") {
			fmt.Fprintf(&b, format, i, i+1)
		} else {
			fmt.Fprintf(&b, format, i)
		}
	}
	return b.String()
}

// TestPlaces: nodes fill the places of a level in their order, within each
// place above.
func TestPlaces(t *testing.T) {
	s, err := ParseYAML("c", []byte(`
topology: [{level: zone, nodes: 5}, {level: rack, nodes: 2}]
nodes:
  - {count: 7, gpus: 1}
  - {count: 3, gpus: 1, place: east}
  - {count: 1, gpus: 1, place: east/corner}
  - {count: 1, gpus: 1, place: zone1}
`))
	c := build(t, s, err).Cluster
	var got []string
	for id := range cluster.NodeID(c.Nodes()) {
		_, rack, zone := c.Domain(c.Node(id).Domain)
		_, name, _ := c.Domain(zone)
		got = append(got, name+"/"+rack)
	}
	want := "zone0/rack0 zone0/rack0 zone0/rack1 zone0/rack1 zone0/rack2 zone1/rack0 zone1/rack0 east/rack0 east/rack0 east/rack1 east/corner zone1/rack0"
	if strings.Join(got, " ") != want {
		t.Errorf("%s\ninstead of\n%s", strings.Join(got, " "), want)
	}
}

// TestArrivalsInOrder: nodes arrive in order of time, whatever the order in
// the file, and are counted in percentages.
func TestArrivalsInOrder(t *testing.T) {
	s, err := ParseYAML("c", []byte("nodes: [{name: b, gpus: 6, at: 2h}, {name: a, gpus: 4, at: 1h}, {name: c, gpus: 2, at: 1h}, {name: d, gpus: 8}]\ntenants: [{name: t, guarantee: 50%}]"))
	site := build(t, s, err)
	var names []string
	for _, a := range site.Arrivals {
		names = append(names, a.Spec.Name)
	}
	if strings.Join(names, "") != "acb" || site.Cluster.Nodes() != 1 {
		t.Errorf("arrivals %v, %d nodes", names, site.Cluster.Nodes())
	}
	if id, _ := site.Tenants.Lookup("t"); site.Tenants.At(id).Guarantee != 10000 {
		t.Errorf("guarantee %v", site.Tenants.At(id).Guarantee)
	}
}

// TestBuildIsFresh: what is held in one cluster is not held in the next.
func TestBuildIsFresh(t *testing.T) {
	s, err := Parse("2x4")
	first := build(t, s, err)
	first.Cluster.SetHealth(0, cluster.Down)
	second := build(t, s, nil)
	if !second.Cluster.Usable(0) || second.Cluster.FreeGPUs(0, 0) != 8 {
		t.Error("the second cluster knows of the first")
	}
}

func FuzzYAML(f *testing.F) {
	example, err := os.ReadFile("../../examples/cluster.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(example)
	for _, text := range []string{
		"nodes: [{gpus: 8}]", "nodes:\n- gpus: 8xA\n  place: a/b\nracks: 2", "nodes: [{count: 200000, gpus: 64}]", "costs: {tiers: [{gpus: 1}]}\nnodes: [{pooled: true, gpus: 500}]",
		"tenants: [{name: a, parent: b}, {name: b}]\nnodes: [{gpus: [1xA, {type: B}]}]", "nodes: [{gpus: 8, links: dgx1, at: 1h}]", "? a\n: b", "a: |\n  x", "- - - -", "{a: [{b: c}]}",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := ParseYAML("fuzz", text)
		if err != nil {
			return
		}
		sameAgain(t, s)
	})
}

func BenchmarkYAML(b *testing.B) {
	s, err := Parse("pai")
	if err != nil {
		b.Fatal(err)
	}
	site, err := s.Build()
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		of, err := Of(site.Cluster)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := ParseYAML("again", of.YAML()); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkBuild(b *testing.B) {
	s, err := Parse("10000x8")
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Build(); err != nil {
			b.Fatal(err)
		}
	}
}
