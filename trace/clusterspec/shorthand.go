package clusterspec

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
)

// UnnamedType is the GPU type where none is named, as in 16x8.
const UnnamedType = "gpu"

// forms is what an error shows of the shorthand.
func forms() string {
	return `write 16x8:V100 for 16 nodes of 8 GPUs, 16x8:V100/96c/720GiB with CPUs and memory of each node,
2x8:V100+4x4:P100 for two kinds of nodes, vcA=4x8,vcB=2x8 for partitions, 64 or pool:2490 for GPUs in one pool,
16x8:V100/dgx1 with the links of a machine that is known (norn cluster --links lists them),
n8g8 or g300 as published simulators do, the path of a file, or a preset: ` + strings.Join(presetNames(), ", ")
}

// Parse reads a shorthand or the name of a preset; it opens no file. The
// grammar is
//
//	cluster = part { "," part } .
//	part    = [ partition "=" ] group { "+" group } .
//	group   = shape [ ":" type ] { "/" extra } .
//	shape   = nodes "x" GPUs | "n" nodes "g" GPUs | "g" GPUs | [ "pool:" ] GPUs .
//	extra   = cores "c" | memory | amount "*" name | links .
//
// where pool:64, 64 and g64 are one node whose GPUs are counted and not told
// apart; g64 has 23.22 cores for each of them. Nodes of nNgG stand in one rack.
func Parse(text string) (*Spec, error) {
	text = strings.TrimSpace(text)
	if p, ok := presetNamed(text); ok {
		return p.Spec()
	}
	if text == "" {
		return nil, fmt.Errorf("no cluster is given\n%s", forms())
	}
	s := &Spec{}
	for part := range strings.SplitSeq(text, ",") {
		name, groups, named := strings.Cut(part, "=")
		if !named {
			name, groups = "", part
		}
		name = strings.TrimSpace(name)
		if named && name == "" {
			return nil, misread(text, part, "the name of the partition is missing before =")
		}
		if named && (!goodName(name) || strings.ContainsAny(name, ":;/+")) {
			return nil, misread(text, part, "the name of the partition has signs that are not allowed")
		}
		for group := range strings.SplitSeq(groups, "+") {
			g, err := parseGroup(strings.TrimSpace(group))
			if err != nil {
				return nil, misread(text, group, err.Error())
			}
			g.Partition = name
			s.Nodes = append(s.Nodes, g)
		}
	}
	if err := s.finish(); err != nil {
		return nil, fmt.Errorf("cluster %q: %w", shorten(text), err)
	}
	return s, nil
}

// misread says which part of a shorthand was not understood, and what is
// allowed.
func misread(text, part, why string) error {
	where := ""
	if part = strings.TrimSpace(part); part != text {
		where = fmt.Sprintf(": %q", shorten(part))
	}
	return fmt.Errorf("cluster %q%s is not understood: %s\n%s", shorten(text), where, why, forms())
}

// shorten keeps an error readable.
func shorten(text string) string {
	if len(text) > 120 {
		return text[:100] + "..."
	}
	return text
}

// parseGroup reads a group of nodes that are alike.
func parseGroup(text string) (Group, error) {
	fields := strings.Split(text, "/")
	g, err := parseShape(strings.TrimSpace(fields[0]))
	if err != nil {
		return g, err
	}
	for _, extra := range fields[1:] {
		extra = strings.TrimSpace(extra)
		if cores, ok := strings.CutSuffix(extra, "c"); ok {
			if g.CPU, err = unit.ParseMilli(cores); err != nil {
				return g, fmt.Errorf("%q is not a number of cores, write 96c", extra)
			}
			continue
		}
		if amount, name, ok := strings.Cut(extra, "*"); ok {
			if g.Slots, err = job.ParseSlots(string(g.Slots) + "|" + name + "=" + amount); err != nil {
				return g, err
			}
			continue
		}
		if isLayout(extra) {
			g.Links.Preset = extra
			continue
		}
		if g.Memory, err = unit.ParseBytes(extra); err != nil {
			return g, fmt.Errorf("%q is neither cores (96c) nor memory (720GiB), nor a counted resource (8*rdma), nor links that are known (dgx1)", extra)
		}
	}
	return g, nil
}

// isLayout tells whether a name is that of links that are known.
func isLayout(name string) bool {
	return slices.ContainsFunc(cluster.LinkLayouts(), func(l cluster.LinkLayout) bool { return l.Name == name })
}

// poolCPU is the cores for each GPU of the pool of the PAI simulator.
const poolCPU = 23.22

// parseShape reads the number of nodes and GPUs, and the type.
func parseShape(text string) (Group, error) {
	g := Group{Count: 1}
	text, pooled := strings.CutPrefix(text, "pool:")
	shape, typ, named := strings.Cut(text, ":")
	if !named {
		typ = UnnamedType
	}
	if typ = strings.TrimSpace(typ); !goodName(typ) {
		return g, fmt.Errorf("the GPU type is missing after the colon")
	}
	nodes, gpus, several := strings.Cut(shape, "x")
	var err error
	switch {
	case pooled || !several && digits(shape):
		g.Pooled = true
		nodes, gpus = "1", shape
	case several:
	case strings.HasPrefix(shape, "n"):
		nodes, gpus, several = strings.Cut(shape[1:], "g")
		if !several {
			return g, fmt.Errorf("write nodes and GPUs as n8g8")
		}
		g.Place = []string{"rack0"}
	case strings.HasPrefix(shape, "g"):
		g.Pooled = true
		nodes, gpus = "1", shape[1:]
	default:
		return g, fmt.Errorf("it is no number of nodes and GPUs, no preset and no file")
	}
	if g.Count, err = count(nodes, "nodes", MaxNodes); err != nil {
		return g, err
	}
	n, err := count(gpus, "GPUs", MaxDevices)
	if err != nil {
		return g, err
	}
	g.GPUs = []GPUs{{typ, n}}
	if strings.HasPrefix(shape, "g") {
		g.CPU = unit.Milli(math.Round(poolCPU * 1000 * float64(n)))
	}
	return g, nil
}

// hasShape tells whether a text begins as a shorthand does.
func hasShape(text string) bool {
	first := text
	if i := strings.IndexAny(text, "/+,"); i >= 0 {
		first = text[:i]
	}
	_, err := parseShape(strings.TrimSpace(first))
	return err == nil
}

func digits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// count reads a number from 1 to most.
func count(s, of string, most int) (int, error) {
	if !digits(s) {
		return 0, fmt.Errorf("%q is not a number of %s", s, of)
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > most {
		return 0, fmt.Errorf("%s %s: from 1 to %d are allowed", s, of, most)
	}
	return n, nil
}
