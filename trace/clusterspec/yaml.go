package clusterspec

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/label"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/internal/yamltext"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/tenant"
)

// maxYAML is the longest description in YAML, read or written: enough for forty
// thousand nodes of which no two are alike.
const maxYAML = 4 << 20

var errTooLong = errors.New("a description has at most 4 MiB; write nodes that are alike as one group with a count")

// ParseYAML reads a description written in YAML. Unknown keys and values that
// cannot be read are errors that show the line; name is what the errors call
// the text, such as the path of its file.
func ParseYAML(name string, text []byte) (*Spec, error) {
	fail := func(err error) (*Spec, error) { return nil, yamltext.Locate(name, text, err) }
	if len(text) > maxYAML {
		return fail(errTooLong)
	}
	body, err := yamltext.Parse(text)
	if err != nil {
		return fail(err)
	}
	if body == nil {
		return fail(errors.New("the file is empty"))
	}
	s := &Spec{}
	if err := s.read(body); err != nil {
		return fail(err)
	}
	if err := s.finish(); err != nil {
		return fail(err)
	}
	return s, nil
}

// read takes the keys of the whole document.
func (s *Spec) read(n ast.Node) error {
	racks := 0
	err := yamltext.Mapping(n, "a cluster", yamltext.Keys{
		"gpu-types":  yamltext.List("GPU types", s.readType),
		"topology":   yamltext.List("topology levels", s.readLevel),
		"racks":      yamltext.Int(&racks, 1, MaxNodes),
		"partitions": yamltext.List("partitions", s.readPartition),
		"nodes":      yamltext.List("nodes", s.readGroup),
		"tenants":    yamltext.List("tenants", s.readTenant),
		"half-life":  yamltext.Duration(&s.HalfLife),
		"costs":      s.readCosts,
	})
	if err == nil && racks > 0 {
		if len(s.Levels) > 0 {
			return errors.New("give either racks or topology")
		}
		s.Levels = []Level{{Name: "rack", Nodes: racks}}
	}
	return err
}

func (s *Spec) readType(n ast.Node) error {
	var t cluster.GPUType
	if name, err := yamltext.Scalar(n); err == nil {
		s.Types = append(s.Types, cluster.GPUType{Name: name})
		return nil
	}
	err := yamltext.Mapping(n, "a GPU type", yamltext.Keys{"name": yamltext.Text(&t.Name), "memory": yamltext.Bytes(&t.Memory), "speed": positive("speed", &t.Speed), "host": yamltext.Bool(&t.Host)})
	s.Types = append(s.Types, t)
	return err
}

func (s *Spec) readLevel(n ast.Node) error {
	var l Level
	if name, err := yamltext.Scalar(n); err == nil {
		s.Levels = append(s.Levels, Level{Name: name})
		return nil
	}
	err := yamltext.Mapping(n, "a topology level", yamltext.Keys{"level": yamltext.Text(&l.Name), "nodes": yamltext.Int(&l.Nodes, 1, MaxNodes),
		"uplink": positive("speed", &l.Uplink.GBps), "latency": yamltext.Duration(&l.Uplink.Latency)})
	s.Levels = append(s.Levels, l)
	return err
}

func (s *Spec) readPartition(n ast.Node) error {
	name, err := yamltext.Scalar(n)
	s.Partitions = append(s.Partitions, name)
	return err
}

func (s *Spec) readGroup(n ast.Node) error {
	g := Group{Count: 1}
	err := yamltext.Mapping(n, "a group of nodes", yamltext.Keys{
		"name":      yamltext.Text(&g.Name),
		"count":     yamltext.Int(&g.Count, 1, MaxNodes),
		"gpus":      g.readGPUs,
		"cpus":      yamltext.Milli(&g.CPU),
		"memory":    yamltext.Bytes(&g.Memory),
		"slots":     yamltext.Value(&g.Slots, job.ParseSlots),
		"links":     g.readLinks,
		"nics":      g.readNICs,
		"pooled":    yamltext.Bool(&g.Pooled),
		"partition": yamltext.Text(&g.Partition),
		"place":     g.readPlace,
		"health":    yamltext.Choice(&g.Health, cluster.Up.String(), cluster.Cordoned.String(), cluster.Down.String()),
		"power":     yamltext.Choice(&g.Power, cluster.Awake.String(), cluster.Asleep.String(), cluster.Booting.String()),
		"foreign":   g.Foreign.read,
		"at":        yamltext.Duration(&g.At),
		"labels":    g.readLabels,
		"taints": yamltext.List("taints", func(n ast.Node) error {
			text, err := yamltext.Scalar(n)
			return read(n, text, err, label.ParseTaint, &g.Taints)
		}),
	})
	s.Nodes = append(s.Nodes, g)
	return err
}

func (f *Foreign) read(n ast.Node) error {
	return yamltext.Mapping(n, "use by others", yamltext.Keys{
		"gpus": yamltext.Int(&f.GPUs, 0, maxPooled), "cpus": yamltext.Milli(&f.CPU), "memory": yamltext.Bytes(&f.Memory), "slots": yamltext.Value(&f.Slots, job.ParseSlots),
	})
}

// readGPUs reads 8, 8xV100, or a list of such or of {type, count}.
func (g *Group) readGPUs(n ast.Node) error {
	one := func(n ast.Node) error {
		var x GPUs
		if written, err := yamltext.Scalar(n); err == nil {
			number, typ, named := strings.Cut(written, "x")
			if x.Type = strings.TrimSpace(typ); !named {
				x.Type = UnnamedType
			}
			if x.Count, err = count(strings.TrimSpace(number), "GPUs", maxPooled); err != nil {
				return yamltext.Fault(n, "%v; write 8xV100", err)
			}
		} else {
			x = GPUs{Type: UnnamedType, Count: 1}
			if err := yamltext.Mapping(n, "a group of GPUs", yamltext.Keys{"type": yamltext.Text(&x.Type), "count": yamltext.Int(&x.Count, 1, maxPooled)}); err != nil {
				return err
			}
		}
		g.GPUs = append(g.GPUs, x)
		return nil
	}
	if _, ok := n.(*ast.SequenceNode); ok {
		return yamltext.List("GPUs", one)(n)
	}
	return one(n)
}

// readLabels reads a mapping of keys to values, or a list of key=value.
func (g *Group) readLabels(n ast.Node) error {
	if m, ok := n.(*ast.MappingNode); ok {
		for _, v := range m.Values {
			key, err := yamltext.Scalar(v.Key)
			if err != nil {
				return err
			}
			value, err := yamltext.Scalar(v.Value)
			if err := read(v.Value, key+"="+value, err, label.ParseLabel, &g.Labels); err != nil {
				return err
			}
		}
		return nil
	}
	return yamltext.List("labels", func(n ast.Node) error {
		text, err := yamltext.Scalar(n)
		return read(n, text, err, label.ParseLabel, &g.Labels)
	})(n)
}

// read appends what a text means; an error shows the line.
func read[T any](n ast.Node, text string, err error, parse func(string) (T, error), to *[]T) error {
	if err != nil {
		return err
	}
	one, err := parse(text)
	if err != nil {
		return yamltext.Fault(n, "%v", err)
	}
	*to = append(*to, one)
	return nil
}

// readLinks reads the name of a preset, or a list of pairs.
func (g *Group) readLinks(n ast.Node) error {
	if _, ok := n.(*ast.SequenceNode); !ok {
		return yamltext.Text(&g.Links.Preset)(n)
	}
	return yamltext.List("links", func(n ast.Node) error {
		l := Link{Link: cluster.Link{Class: cluster.NVLink}}
		var ends []int
		nvlinks, gen := 0, 0
		err := yamltext.Mapping(n, "a link", yamltext.Keys{
			"between": yamltext.List("the GPUs of a link", func(n ast.Node) error {
				end := 0
				err := yamltext.Int(&end, 0, 255)(n)
				ends = append(ends, end)
				return err
			}),
			"class": yamltext.Choice(&l.Class, classNames()...),
			"speed": positive("speed", &l.GBps),

			"count":      yamltext.Int(&nvlinks, 1, cluster.MaxNVLinks),
			"generation": yamltext.Int(&gen, 1, cluster.MaxNVLinkGen),
		})
		if err != nil {
			return err
		}
		l.Count, l.Gen = uint8(nvlinks), uint8(gen)
		if len(ends) != 2 {
			return yamltext.Fault(n, "a link is between two GPUs: write between: [0, 1]")
		}
		l.A, l.B = ends[0], ends[1]
		g.Links.Pairs = append(g.Links.Pairs, l)
		return nil
	})(n)
}

// readNICs reads the network adapters of each node.
func (g *Group) readNICs(n ast.Node) error {
	g.NICs.Count = 1
	return yamltext.Mapping(n, "network adapters", yamltext.Keys{
		"count": yamltext.Int(&g.NICs.Count, 1, cluster.MaxNICs), "speed": positive("speed", &g.NICs.GBps), "latency": yamltext.Duration(&g.NICs.Latency),
	})
}

func classNames() []string {
	var names []string
	for c := cluster.SameDevice; c <= cluster.CrossSocket; c++ {
		names = append(names, c.String())
	}
	return names
}

// readPlace reads zone-a/rack-3, or a list of the names.
func (g *Group) readPlace(n ast.Node) error {
	if _, ok := n.(*ast.SequenceNode); ok {
		return yamltext.List("the names of a place", func(n ast.Node) error {
			name, err := yamltext.Scalar(n)
			g.Place = append(g.Place, name)
			return err
		})(n)
	}
	path, err := yamltext.Scalar(n)
	g.Place = strings.Split(path, "/")
	return err
}

func (s *Spec) readTenant(n ast.Node) error {
	var t Tenant
	err := yamltext.Mapping(n, "a tenant", yamltext.Keys{
		"name":      yamltext.Text(&t.Name),
		"parent":    yamltext.Text(&t.Parent),
		"guarantee": yamltext.Value(&t.Guarantee, ParseShare),
		"limit":     yamltext.Value(&t.Limit, ParseShare),
		"weight":    positive("weight", &t.Weight),
		"cells":     yamltext.Value(&t.Cells, tenant.ParseCells),
	})
	s.Tenants = append(s.Tenants, t)
	return err
}

// positive takes a number above 0, for what is one or unknown where it is left
// out: written as 0 it would be taken for that.
func positive(name string, v *float64) yamltext.Setter {
	return yamltext.Value(v, func(s string) (float64, error) {
		f, err := strconv.ParseFloat(s, 64)
		if err != nil || !(f > 0) {
			return 0, fmt.Errorf("%s %s: write a number above 0", name, s)
		}
		return f, nil
	})
}

// ParseShare reads a number of GPUs or a percentage.
func ParseShare(text string) (Share, error) {
	if percent, ok := strings.CutSuffix(text, "%"); ok {
		v, err := strconv.ParseFloat(strings.TrimSpace(percent), 64)
		if err != nil || !(v >= 0 && v <= 100) {
			return Share{}, fmt.Errorf("%q: write a percentage from 0%% to 100%%", text)
		}
		return Share{Percent: v}, nil
	}
	gpus, err := unit.ParseMilli(text)
	if err != nil {
		return Share{}, fmt.Errorf("%q: write a number of GPUs, or a percentage of the cluster such as 25%%", text)
	}
	return Share{GPUs: gpus}, nil
}

// costKeys are the transitions. Keys that a description leaves out stay as they
// are.
func costKeys(c *perf.Cost) yamltext.Keys {
	return yamltext.Keys{
		"start": yamltext.Duration(&c.Start), "checkpoint": yamltext.Duration(&c.Checkpoint), "restore": yamltext.Duration(&c.Restore),
		"migrate": yamltext.Duration(&c.Migrate), "resize": yamltext.Duration(&c.Resize), "in-place": yamltext.Duration(&c.InPlace),
		"time-sliced": yamltext.Duration(&c.TimeSliced),
	}
}

// readCosts reads the costs and their tiers. A tier has the costs of the one
// before it, or of all jobs, where it names none.
func (s *Spec) readCosts(n ast.Node) error {
	var tiers ast.Node
	known := costKeys(&s.Costs.Base)
	known["tiers"] = func(n ast.Node) error {
		tiers = n
		return nil
	}
	if err := yamltext.Mapping(n, "costs", known); err != nil || tiers == nil {
		return err
	}
	before := s.Costs.Base
	return yamltext.List("tiers", func(n ast.Node) error {
		t := perf.Tier{Cost: before}
		known := costKeys(&t.Cost)
		known["gpus"] = yamltext.Int(&t.GPUs, 1, MaxDevices)
		err := yamltext.Mapping(n, "a tier", known)
		before = t.Cost
		s.Costs.Tiers = append(s.Costs.Tiers, t)
		return err
	})(tiers)
}

// costs lists the transitions in the order in which they are written.
func costs(c *perf.Cost) []named[time.Duration] {
	return []named[time.Duration]{
		{"start", c.Start}, {"checkpoint", c.Checkpoint}, {"restore", c.Restore}, {"migrate", c.Migrate}, {"resize", c.Resize}, {"in-place", c.InPlace}, {"time-sliced", c.TimeSliced},
	}
}

type named[T any] struct {
	name  string
	value T
}
