package eventlog

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/internal/jsontext"
	"github.com/norn-scheduler/norn/tenant"
)

// Header is the first line of a log: which run it is, and what must be known of
// the cluster before its nodes are added by events.
type Header struct {
	World    string    // sim, local, kube
	Policy   string    // name of the policy
	Settings []Setting // of the policy, where they differ from the defaults
	// Conditions say how the world behaved, where it differs from the defaults, for
	// whoever wants to run the same again. A name with several values is there
	// several times.
	Conditions []Setting

	Next     int64  // number of the next job, where the world numbers them for life; 0: it does not
	Estimate string // estimator
	Trace    string // what was run
	Cluster  string // the cluster as the user wrote it
	Seed     uint64
	Origin   time.Time // time of day at zero; zero: not known
	HalfLife time.Duration

	Types   []cluster.GPUType
	Slots   []string // names of the counted resources
	Pools   []string // without the default pool
	Domains []Domain // without the cluster itself
	Tenants []tenant.Tenant

	// Begins is when a log begins that goes on where an earlier one ended, and
	// Usage what each tenant had used by then, the root first; see tenant.Tree.
	Begins time.Duration
	Usage  []float64
}

// Setting is a value that was given for a name, such as a policy's parameter or a
// flag. The log has name=value, so that the name has no = in it.
type Setting struct{ Name, Value string }

// String is name=value.
func (s Setting) String() string { return s.Name + "=" + s.Value }

// Domain is a place in the topology tree; its number is its place in the list,
// counted from one.
type Domain struct {
	Level, Name string
	Parent      cluster.DomainID
	Uplink      cluster.Uplink
}

// Describe fills in what the header must say of a cluster and its tenants.
func (h *Header) Describe(c *cluster.Cluster, t *tenant.Tree) {
	h.Types, h.Pools, h.Domains, h.Tenants = nil, nil, nil, nil
	h.Slots = slices.Clone(c.SlotNames())
	for i := range cluster.TypeID(c.Types()) {
		h.Types = append(h.Types, c.Type(i))
	}
	for p := cluster.PoolID(1); int(p) < c.Pools(); p++ {
		h.Pools = append(h.Pools, c.PoolName(p))
	}
	for d := cluster.DomainID(1); int(d) < c.Domains(); d++ {
		level, name, parent := c.Domain(d)
		h.Domains = append(h.Domains, Domain{level, name, parent, cluster.UplinkOf(c, d)})
	}
	if t == nil {
		return
	}
	h.HalfLife = t.HalfLife()
	for i := tenant.ID(1); int(i) < t.Len(); i++ {
		e := t.At(i)
		h.Tenants = append(h.Tenants, tenant.Tenant{Name: e.Name, Parent: e.Parent, Guarantee: e.Guarantee, Limit: e.Limit, Weight: e.Weight, Cells: e.Cells})
	}
}

// Build makes the cluster, still without nodes, and the tenants that the header
// describes.
func (h *Header) Build() (*cluster.Cluster, *tenant.Tree, error) {
	c := cluster.New()
	for _, t := range h.Types {
		if _, err := c.AddType(t); err != nil {
			return nil, nil, err
		}
	}
	for _, name := range h.Slots {
		if _, err := c.AddSlot(name); err != nil {
			return nil, nil, err
		}
	}
	for _, p := range h.Pools {
		c.AddPool(p)
	}
	for _, d := range h.Domains {
		id, err := c.AddDomain(d.Level, d.Name, d.Parent)
		if err == nil {
			err = d.Uplink.Check()
		}
		if err != nil {
			return nil, nil, err
		}
		cluster.SetUplink(c, id, d.Uplink)
	}
	tree := tenant.NewTree(h.HalfLife)
	for _, t := range h.Tenants {
		id, err := tree.Add(t.Name, t.Parent, t.Guarantee, t.Limit, t.Weight)
		if err != nil {
			return nil, nil, err
		}
		tree.SetCells(id, t.Cells)
	}
	if len(h.Usage) > tree.Len() {
		return nil, nil, fmt.Errorf("tells what %d tenants have used, but there are %d", len(h.Usage), tree.Len())
	}
	for i, used := range h.Usage {
		tree.SetUsage(tenant.ID(i), used, h.Begins)
	}
	return c, tree, nil
}

func (h *Header) append(b []byte) ([]byte, error) {
	f := jsontext.Writer{B: append(b, opening...)}
	integer(&f, "version", Version)
	f.Text("world", h.World)
	f.Text("policy", h.Policy)
	list(&f, "settings", len(h.Settings), func(i int) { f.B = jsontext.AppendText(f.B, h.Settings[i].String()) })
	list(&f, "conditions", len(h.Conditions), func(i int) { f.B = jsontext.AppendText(f.B, h.Conditions[i].String()) })
	f.Int("next_job", h.Next)
	f.Text("estimates", h.Estimate)
	f.Text("trace", h.Trace)
	f.Text("cluster", h.Cluster)
	if h.Seed != 0 {
		f.Text("seed", strconv.FormatUint(h.Seed, 10))
	}
	if !h.Origin.IsZero() {
		f.Text("origin", h.Origin.UTC().Format(time.RFC3339Nano))
	}
	f.Time("half_life", h.HalfLife)
	list(&f, "types", len(h.Types), func(i int) {
		f.B = append(f.B, '{')
		f.Text("name", h.Types[i].Name)
		f.Int("mem", int64(h.Types[i].Memory))
		f.Float("speed", h.Types[i].Speed)
		f.Bool("host", h.Types[i].Host)
		f.B = append(f.B, '}')
	})
	list(&f, "slots", len(h.Slots), func(i int) { f.B = jsontext.AppendText(f.B, h.Slots[i]) })
	list(&f, "pools", len(h.Pools), func(i int) { f.B = jsontext.AppendText(f.B, h.Pools[i]) })
	list(&f, "domains", len(h.Domains), func(i int) {
		f.B = append(f.B, '{')
		f.Text("level", h.Domains[i].Level)
		f.Text("name", h.Domains[i].Name)
		f.Int("parent", int64(h.Domains[i].Parent))
		f.Float("uplink", h.Domains[i].Uplink.GBps)
		f.Int("latency", int64(h.Domains[i].Uplink.Latency))
		f.B = append(f.B, '}')
	})
	list(&f, "tenants", len(h.Tenants), func(i int) {
		t := &h.Tenants[i]
		f.B = append(f.B, '{')
		f.Text("name", t.Name)
		f.Int("parent", int64(t.Parent))
		f.Milli("guarantee", t.Guarantee)
		if t.Limit != tenant.Unlimited {
			f.Milli("limit", t.Limit)
		}
		f.Float("weight", t.Weight)
		f.Text("cells", string(t.Cells))
		f.B = append(f.B, '}')
	})
	f.Time("begins", h.Begins)
	list(&f, "usage", len(h.Usage), func(i int) { f.Number(h.Usage[i]) })
	return append(f.B, '}', '\n'), f.Err
}

// list writes an array, unless it is empty.
func list(f *jsontext.Writer, name string, n int, element func(int)) {
	if n == 0 {
		return
	}
	f.Key(name)
	f.B = append(f.B, '[')
	for i := range n {
		if i > 0 {
			f.B = append(f.B, ',')
		}
		element(i)
	}
	f.B = append(f.B, ']')
}

// opening is how every log begins.
const opening = `{"norn":"eventlog"`

// ErrNotLog is the error of a file that does not begin like an event log.
var ErrNotLog = errors.New("is no event log: it should begin with " + opening)

// ErrNewer is the error of a log that a newer program has written.
var ErrNewer = errors.New("a newer norn is needed")

// read reads the header, and tells of which version the log is.
func (h *Header) read(line []byte) (version int64, err error) {
	t := jsontext.NewReader(line)
	what := ""
	err = t.Object(func(key []byte) (err error) {
		switch string(key) {
		case "norn":
			return text(t, &what)
		case "version":
			version, err = t.Int(0, 1<<30)
			return err
		}
		return h.field(t, key)
	})
	switch {
	case what != "eventlog":
		return 0, ErrNotLog
	case version > Version:
		return version, fmt.Errorf("is an event log of version %d, this program reads versions 1 to %d: %w", version, Version, ErrNewer)
	case version < 1:
		return 0, fmt.Errorf("is an event log of version %d, this program reads versions 1 to %d", version, Version)
	case err != nil:
		return 0, err
	}
	return version, t.End()
}

func (h *Header) field(t *jsontext.Reader, key []byte) (err error) {
	switch string(key) {
	case "world":
		return text(t, &h.World)
	case "policy":
		return text(t, &h.Policy)
	case "settings":
		return settings(t, &h.Settings)
	case "conditions":
		return settings(t, &h.Conditions)
	case "next_job":
		h.Next, err = t.Int(0, math.MaxInt64)
		return err
	case "estimates":
		return text(t, &h.Estimate)
	case "trace":
		return text(t, &h.Trace)
	case "cluster":
		return text(t, &h.Cluster)
	case "slots":
		return texts(t, &h.Slots)
	case "pools":
		return texts(t, &h.Pools)
	case "seed":
		var s string
		if err := text(t, &s); err != nil {
			return err
		}
		h.Seed, err = strconv.ParseUint(s, 10, 64)
		return err
	case "origin":
		var s string
		if err := text(t, &s); err != nil {
			return err
		}
		h.Origin, err = time.Parse(time.RFC3339Nano, s)
		return err
	case "half_life":
		return seconds(t, &h.HalfLife)
	case "begins":
		return seconds(t, &h.Begins)
	}
	return h.lists(t, key)
}

func (h *Header) lists(t *jsontext.Reader, key []byte) error {
	switch string(key) {
	case "types":
		return t.Array(func() error {
			var g cluster.GPUType
			err := t.Object(func(key []byte) (err error) {
				switch string(key) {
				case "name":
					return text(t, &g.Name)
				case "mem":
					return size(t, &g.Memory)
				case "speed":
					g.Speed, err = t.Float()
					return err
				case "host":
					g.Host, err = t.Bool()
					return err
				}
				return t.Skip()
			})
			h.Types = append(h.Types, g)
			return err
		})
	case "domains":
		return t.Array(func() error {
			var d Domain
			err := t.Object(func(key []byte) (err error) {
				switch string(key) {
				case "level":
					return text(t, &d.Level)
				case "name":
					return text(t, &d.Name)
				case "parent":
					return number(t, &d.Parent)
				case "uplink":
					d.Uplink.GBps, err = t.Float()
					return err
				case "latency":
					v, err := t.Int(0, int64(time.Second))
					d.Uplink.Latency = time.Duration(v)
					return err
				}
				return t.Skip()
			})
			h.Domains = append(h.Domains, d)
			return err
		})
	case "tenants":
		return t.Array(func() error { return h.tenant(t) })
	case "usage":
		return t.Array(func() error {
			v, err := t.Float()
			h.Usage = append(h.Usage, v)
			return err
		})
	}
	return t.Skip() // of a later program
}

func (h *Header) tenant(t *jsontext.Reader) error {
	e := tenant.Tenant{Limit: tenant.Unlimited}
	err := t.Object(func(key []byte) (err error) {
		switch string(key) {
		case "name":
			return text(t, &e.Name)
		case "parent":
			return number(t, &e.Parent)
		case "guarantee":
			return milli(t, &e.Guarantee)
		case "limit":
			return milli(t, &e.Limit)
		case "weight":
			e.Weight, err = t.Float()
			return err
		case "cells":
			written := ""
			if err = text(t, &written); err == nil {
				e.Cells, err = tenant.ParseCells(written)
			}
			return err
		}
		return t.Skip()
	})
	h.Tenants = append(h.Tenants, e)
	return err
}

func text(t *jsontext.Reader, to *string) error {
	v, err := t.Text()
	*to = string(v)
	return err
}

func texts(t *jsontext.Reader, to *[]string) error {
	return t.Array(func() error {
		var s string
		err := text(t, &s)
		*to = append(*to, s)
		return err
	})
}

func settings(t *jsontext.Reader, to *[]Setting) error {
	return t.Array(func() error {
		var s string
		err := text(t, &s)
		name, value, _ := strings.Cut(s, "=")
		*to = append(*to, Setting{name, value})
		return err
	})
}

func number[T ~int32](t *jsontext.Reader, to *T) error {
	n, err := t.Int(-1<<31, 1<<31-1)
	*to = T(n)
	return err
}

func seconds(t *jsontext.Reader, to *time.Duration) error {
	n, err := t.Scaled(int64(time.Second))
	*to = time.Duration(n)
	return err
}

func milli(t *jsontext.Reader, to *unit.Milli) error {
	n, err := t.Scaled(1000)
	*to = unit.Milli(n)
	return err
}

func size(t *jsontext.Reader, to *unit.Bytes) error {
	n, err := t.Int(0, unit.MaxScaled)
	*to = unit.Bytes(n)
	return err
}
