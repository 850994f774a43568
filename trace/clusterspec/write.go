package clusterspec

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/internal/yamltext"
	"github.com/norn-scheduler/norn/perf"
)

// YAML writes the description in its canonical form: every type, level and
// partition that is mentioned is listed, defaults are left out, and ParseYAML
// gives an equal Spec.
func (s *Spec) YAML() []byte {
	w := &writer{}
	w.types(s.Types)
	w.section("topology", len(s.Levels))
	for _, l := range s.Levels {
		w.entry(pair("level", yamltext.Quote(l.Name)), optional("nodes", l.Nodes > 0, strconv.Itoa(l.Nodes)),
			optional("uplink", l.Uplink.GBps > 0, float(l.Uplink.GBps)), optional("latency", l.Uplink.Latency > 0, l.Uplink.Latency.String()))
	}
	w.section("partitions", len(s.Partitions))
	for _, p := range s.Partitions {
		w.line("  - " + yamltext.Quote(p))
	}
	w.section("nodes", len(s.Nodes))
	for i := range s.Nodes {
		w.group(&s.Nodes[i])
	}
	w.section("tenants", len(s.Tenants))
	for i := range s.Tenants {
		t := &s.Tenants[i]
		w.entry(pair("name", yamltext.Quote(t.Name)), optional("parent", t.Parent != "", yamltext.Quote(t.Parent)),
			optional("guarantee", t.Guarantee != Share{}, t.Guarantee.String()), optional("limit", t.Limit != Share{}, t.Limit.String()),
			optional("weight", t.Weight != 0, float(t.Weight)), optional("cells", t.Cells != "", yamltext.Quote(string(t.Cells))))
	}
	if s.HalfLife > 0 {
		w.line("half-life: " + s.HalfLife.String())
	}
	w.costs(&s.Costs)
	return []byte(w.String())
}

// String writes the share as a user would.
func (s Share) String() string {
	if s.Percent > 0 {
		return float(s.Percent) + "%"
	}
	return s.GPUs.String()
}

// String writes use by others as YAML.
func (f *Foreign) String() string {
	var parts []string
	for _, p := range []string{
		optional("gpus", f.GPUs > 0, strconv.Itoa(f.GPUs)), optional("cpus", f.CPU > 0, f.CPU.String()),
		optional("memory", f.Memory > 0, yamltext.FormatBytes(f.Memory)), optional("slots", f.Slots != "", yamltext.Quote(string(f.Slots))),
	} {
		if p != "" {
			parts = append(parts, p)
		}
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// writer is YAML being written.
type writer struct{ strings.Builder }

func (w *writer) line(text string) {
	w.WriteString(text)
	w.WriteByte('\n')
}

// section starts a list of n entries, unless it has none.
func (w *writer) section(name string, n int) {
	if n > 0 {
		w.line(name + ":")
	}
}

// pair is one key with its value.
func pair(key, value string) string { return key + ": " + value }

// optional is one key with its value, or nothing.
func optional(key string, given bool, value string) string {
	if !given {
		return ""
	}
	return pair(key, value)
}

// entry writes one entry of a list, a key on each line.
func (w *writer) entry(pairs ...string) {
	lead := "  - "
	for _, p := range pairs {
		if p != "" {
			w.line(lead + p)
			lead = "    "
		}
	}
}

func (w *writer) types(types []cluster.GPUType) {
	w.section("gpu-types", len(types))
	for _, t := range types {
		w.entry(pair("name", yamltext.Quote(t.Name)), optional("memory", t.Memory > 0, yamltext.FormatBytes(t.Memory)), optional("speed", t.Speed > 0, float(t.Speed)), optional("host", t.Host, "true"))
	}
}

func (w *writer) group(g *Group) {
	gpus := make([]string, len(g.GPUs))
	for i, x := range g.GPUs {
		gpus[i] = fmt.Sprintf("{type: %s, count: %d}", yamltext.Quote(x.Type), x.Count)
	}
	place := make([]string, len(g.Place))
	for i, name := range g.Place {
		place[i] = yamltext.Quote(name)
	}
	w.entry(
		optional("name", g.Name != "", yamltext.Quote(g.Name)),
		pair("count", strconv.Itoa(g.Count)),
		optional("gpus", len(gpus) > 0, "["+strings.Join(gpus, ", ")+"]"),
		optional("cpus", g.CPU > 0, g.CPU.String()),
		optional("memory", g.Memory > 0, yamltext.FormatBytes(g.Memory)),
		optional("slots", g.Slots != "", yamltext.Quote(string(g.Slots))),
		optional("links", g.Links.Preset != "", yamltext.Quote(g.Links.Preset)),
		optional("nics", g.NICs.Count > 0, nics(g.NICs)),
		optional("pooled", g.Pooled, "true"),
		optional("partition", g.Partition != "", yamltext.Quote(g.Partition)),
		optional("place", len(place) > 0, "["+strings.Join(place, ", ")+"]"),
		optional("health", g.Health != cluster.Up, g.Health.String()),
		optional("power", g.Power != cluster.Awake, g.Power.String()),
		optional("foreign", g.Foreign != Foreign{}, g.Foreign.String()),
		optional("at", g.At > 0, g.At.String()),
		optional("labels", len(g.Labels) > 0, texts(g.Labels)),
		optional("taints", len(g.Taints) > 0, texts(g.Taints)),
	)
	if len(g.Links.Pairs) > 0 {
		w.line("    links:")
	}
	for _, l := range g.Links.Pairs {
		rest := optional(", count", l.Count > 0, strconv.Itoa(int(l.Count))) + optional(", generation", l.Gen > 0, strconv.Itoa(int(l.Gen))) +
			optional(", speed", l.GBps > 0, float(l.GBps))
		w.line(fmt.Sprintf("      - {between: [%d, %d], class: %s%s}", l.A, l.B, l.Class, rest))
	}
}

// nics is network adapters as YAML.
func nics(n cluster.NICs) string {
	text := fmt.Sprintf("{count: %d, speed: %s", n.Count, float(n.GBps))
	if n.Latency > 0 {
		text += ", latency: " + n.Latency.String()
	}
	return text + "}"
}

// texts is a list of what has a notation.
func texts[T fmt.Stringer](all []T) string {
	out := make([]string, len(all))
	for i := range all {
		out[i] = yamltext.Quote(all[i].String())
	}
	return "[" + strings.Join(out, ", ") + "]"
}

// costs writes what differs from free transitions, and of each tier what
// differs from the one before it.
func (w *writer) costs(c *perf.Costs) {
	if c.Base.Zero() && len(c.Tiers) == 0 {
		return
	}
	w.line("costs:")
	for _, x := range costs(&c.Base) {
		if x.value > 0 {
			w.line("  " + pair(x.name, x.value.String()))
		}
	}
	if len(c.Tiers) > 0 {
		w.line("  tiers:")
	}
	before := c.Base
	for _, t := range c.Tiers {
		w.line("    - " + pair("gpus", strconv.Itoa(t.GPUs)))
		was := costs(&before)
		for i, x := range costs(&t.Cost) {
			if x.value != was[i].value {
				w.line("      " + pair(x.name, x.value.String()))
			}
		}
		before = t.Cost
	}
}

func float(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
