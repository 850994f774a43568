package clusterspec

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/unit"
)

// maxYAML is the longest description in YAML, read or written: enough for forty
// thousand nodes of which no two are alike.
const maxYAML = 4 << 20

var errTooLong = errors.New("a description has at most 4 MiB; write nodes that are alike as one group with a count")

// ParseYAML reads a description written in YAML. Unknown keys and values that
// cannot be read are errors that show the line; name is what the errors call
// the text, such as the path of its file.
func ParseYAML(name string, text []byte) (*Spec, error) {
	fail := func(err error) (*Spec, error) { return nil, located(name, text, err) }
	if len(text) > maxYAML {
		return fail(errTooLong)
	}
	body, err := parseYAML(text)
	if err != nil {
		return fail(err)
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
	err := mapping(n, "a cluster", keys{
		"gpu-types":  list("GPU types", s.readType),
		"topology":   list("topology levels", s.readLevel),
		"racks":      number(&racks, 1, MaxNodes),
		"partitions": list("partitions", s.readPartition),
		"nodes":      list("nodes", s.readGroup),
		"tenants":    list("tenants", s.readTenant),
		"half-life":  duration(&s.HalfLife),
		"costs":      s.readCosts,
	})
	if err == nil && racks > 0 {
		if len(s.Levels) > 0 {
			return errors.New("give either racks or topology")
		}
		s.Levels = []Level{{"rack", racks}}
	}
	return err
}

func (s *Spec) readType(n ast.Node) error {
	var t cluster.GPUType
	if name, err := scalar(n); err == nil {
		s.Types = append(s.Types, cluster.GPUType{Name: name})
		return nil
	}
	err := mapping(n, "a GPU type", keys{"name": text(&t.Name), "memory": amount(&t.Memory), "speed": decimal(&t.Speed)})
	s.Types = append(s.Types, t)
	return err
}

func (s *Spec) readLevel(n ast.Node) error {
	var l Level
	if name, err := scalar(n); err == nil {
		s.Levels = append(s.Levels, Level{Name: name})
		return nil
	}
	err := mapping(n, "a topology level", keys{"level": text(&l.Name), "nodes": number(&l.Nodes, 1, MaxNodes)})
	s.Levels = append(s.Levels, l)
	return err
}

func (s *Spec) readPartition(n ast.Node) error {
	name, err := scalar(n)
	s.Partitions = append(s.Partitions, name)
	return err
}

func (s *Spec) readGroup(n ast.Node) error {
	g := Group{Count: 1}
	err := mapping(n, "a group of nodes", keys{
		"name":      text(&g.Name),
		"count":     number(&g.Count, 1, MaxNodes),
		"gpus":      g.readGPUs,
		"cpus":      milli(&g.CPU),
		"memory":    amount(&g.Memory),
		"links":     g.readLinks,
		"pooled":    yes(&g.Pooled),
		"partition": text(&g.Partition),
		"place":     g.readPlace,
		"health":    choice(&g.Health, cluster.Up.String(), cluster.Cordoned.String(), cluster.Down.String()),
		"power":     choice(&g.Power, cluster.Awake.String(), cluster.Asleep.String(), cluster.Booting.String()),
		"at":        duration(&g.At),
	})
	s.Nodes = append(s.Nodes, g)
	return err
}

// readGPUs reads 8, 8xV100, or a list of such or of {type, count}.
func (g *Group) readGPUs(n ast.Node) error {
	one := func(n ast.Node) error {
		var x GPUs
		if written, err := scalar(n); err == nil {
			number, typ, named := strings.Cut(written, "x")
			if x.Type = strings.TrimSpace(typ); !named {
				x.Type = UnnamedType
			}
			if x.Count, err = count(strings.TrimSpace(number), "GPUs", maxPooled); err != nil {
				return wrong(n, "%v; write 8xV100", err)
			}
		} else {
			x = GPUs{Type: UnnamedType, Count: 1}
			if err := mapping(n, "a group of GPUs", keys{"type": text(&x.Type), "count": number(&x.Count, 1, maxPooled)}); err != nil {
				return err
			}
		}
		g.GPUs = append(g.GPUs, x)
		return nil
	}
	if _, ok := n.(*ast.SequenceNode); ok {
		return list("GPUs", one)(n)
	}
	return one(n)
}

// readLinks reads the name of a preset, or a list of pairs.
func (g *Group) readLinks(n ast.Node) error {
	if _, ok := n.(*ast.SequenceNode); !ok {
		return text(&g.Links.Preset)(n)
	}
	return list("links", func(n ast.Node) error {
		l := Link{Class: cluster.NVLink}
		var ends []int
		err := mapping(n, "a link", keys{
			"between": list("the GPUs of a link", func(n ast.Node) error {
				end := 0
				err := number(&end, 0, 255)(n)
				ends = append(ends, end)
				return err
			}),
			"class": choice(&l.Class, classNames()...),
			"speed": decimal(&l.GBps),
		})
		if err != nil {
			return err
		}
		if len(ends) != 2 {
			return wrong(n, "a link is between two GPUs: write between: [0, 1]")
		}
		l.A, l.B = ends[0], ends[1]
		g.Links.Pairs = append(g.Links.Pairs, l)
		return nil
	})(n)
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
		return list("the names of a place", func(n ast.Node) error {
			name, err := scalar(n)
			g.Place = append(g.Place, name)
			return err
		})(n)
	}
	path, err := scalar(n)
	g.Place = strings.Split(path, "/")
	return err
}

func (s *Spec) readTenant(n ast.Node) error {
	var t Tenant
	err := mapping(n, "a tenant", keys{
		"name":      text(&t.Name),
		"parent":    text(&t.Parent),
		"guarantee": value(&t.Guarantee, parseShare),
		"limit":     value(&t.Limit, parseShare),
		"weight":    decimal(&t.Weight),
	})
	s.Tenants = append(s.Tenants, t)
	return err
}

// parseShare reads a number of GPUs or a percentage.
func parseShare(text string) (Share, error) {
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

// costKeys are the transitions. What a description leaves out stays as it is.
func costKeys(c *perf.Cost) keys {
	return keys{
		"start": duration(&c.Start), "checkpoint": duration(&c.Checkpoint), "restore": duration(&c.Restore),
		"migrate": duration(&c.Migrate), "resize": duration(&c.Resize),
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
	if err := mapping(n, "costs", known); err != nil || tiers == nil {
		return err
	}
	before := s.Costs.Base
	return list("tiers", func(n ast.Node) error {
		t := perf.Tier{Cost: before}
		known := costKeys(&t.Cost)
		known["gpus"] = number(&t.GPUs, 1, MaxDevices)
		err := mapping(n, "a tier", known)
		before = t.Cost
		s.Costs.Tiers = append(s.Costs.Tiers, t)
		return err
	})(tiers)
}

// costs lists the transitions in the order in which they are written.
func costs(c *perf.Cost) []named[time.Duration] {
	return []named[time.Duration]{
		{"start", c.Start}, {"checkpoint", c.Checkpoint}, {"restore", c.Restore}, {"migrate", c.Migrate}, {"resize", c.Resize},
	}
}

type named[T any] struct {
	name  string
	value T
}
