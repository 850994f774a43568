package cells

import (
	"fmt"
	"strings"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/tenant"
)

// Quota is a number of cells of one level that a virtual cluster is promised.
type Quota struct{ Chain, Level, Count int }

// VC is a virtual cluster.
type VC struct {
	Name   string
	Quotas []Quota
	Pinned []Cell
}

// GPUs is the number of GPUs of all cells of a virtual cluster.
func (f *Forest) GPUs(vc *VC) int {
	n := 0
	for _, q := range vc.Quotas {
		n += q.Count * f.Chains[q.Chain].Levels[q.Level].GPUs
	}
	for _, p := range vc.Pinned {
		n += f.Chains[p.Chain].Levels[p.Level].GPUs
	}
	return n
}

// Legal tells whether all cells that are promised are there at once. The error names the level at
// which they are not, or the pinned cell that is promised twice.
func (f *Forest) Legal(c *cluster.Cluster, vcs []VC) error {
	s := NewSpace(f, vcs)
	if s.doubly != "" {
		return fmt.Errorf("cell %s is pinned for two tenants, or lies in a cell that is", s.doubly)
	}
	for i := range s.chains {
		if level, short := s.chains[i].short(); short > 0 {
			h := s.chains[i].Chain
			return fmt.Errorf("tenants have %d cells too many of level %s of %s: %d of them are there, and larger cells that are promised take some of these",
				short, h.Levels[level].Name, c.Type(h.Type).Name, h.Cells(level))
		}
	}
	return nil
}

// Share is how tenants are promised cells of a pool.
type Share struct {
	VCs []VC
	Of  []int // by tenant: its virtual cluster, or -1
}

// Assign says which cells of a pool tenants are promised. Those who say their cells have them. Where
// none does, a guarantee in GPUs is as many whole nodes as it fills, and smaller cells for the rest, as
// far as there are any; tenants below such a one share these. Where nobody is promised anything, all tenants together have all cells. An error
// names the first tenant and entry that the pool cannot satisfy; what can be promised is, all the same.
func Assign(f *Forest, c *cluster.Cluster, pool cluster.PoolID, tree *tenant.Tree) (s Share, wrong error) {
	s.Of = make([]int, tree.Len())
	told := false
	for t := range tenant.ID(tree.Len()) {
		s.Of[t] = -1
		told = told || tree.At(t).Cells != ""
	}
	rest := newStock(f)
	for t := range tenant.ID(tree.Len()) {
		e := tree.At(t)
		if in, _ := c.PoolByName(e.Name); in != pool && c.Pools() > 1 || e.Cells == "" && (told || e.Guarantee < unit.One || below(tree, e.Parent)) {
			continue
		}
		vc := VC{Name: e.Name}
		if told {
			if err := f.read(&vc, c, e.Cells); err != nil && wrong == nil {
				wrong = fmt.Errorf("tenant %q: %w", e.Name, err)
			}
		} else {
			vc.Quotas = rest.take(int(e.Guarantee / unit.One))
		}
		s.Of[t] = len(s.VCs)
		s.VCs = append(s.VCs, vc)
	}
	if len(s.VCs) == 0 && !told {
		s.VCs = []VC{f.Everything("")}
		clear(s.Of)
	}
	return s, wrong
}

// below tells whether a tenant, or one above it, is guaranteed GPUs.
func below(tree *tenant.Tree, t tenant.ID) bool {
	for ; t >= 0; t = tree.At(t).Parent {
		if tree.At(t).Guarantee >= unit.One {
			return true
		}
	}
	return false
}

// Everything is a virtual cluster that has all cells.
func (f *Forest) Everything(name string) VC {
	vc := VC{Name: name}
	for i := range f.Chains {
		top := len(f.Chains[i].Levels) - 1
		vc.Quotas = append(vc.Quotas, Quota{i, top, f.Chains[i].Cells(top)})
	}
	return vc
}

// read adds what a tenant says about its cells to a virtual cluster. Cells of a level go to the chains of
// that level in turn, as far as each has some.
func (f *Forest) read(vc *VC, c *cluster.Cluster, text tenant.Cells) (wrong error) {
	for e := range text.All() {
		if e.Pinned {
			cells, known := f.Named[e.Level]
			if !known && wrong == nil {
				wrong = fmt.Errorf("cells: @%s is neither a node nor a place in which all nodes are alike", e.Level)
			}
			vc.Pinned = append(vc.Pinned, cells...)
			continue
		}
		left, names := e.Count, map[string]bool{}
		for i := range f.Chains {
			h := &f.Chains[i]
			if name := c.Type(h.Type).Name; e.Type != "" && e.Type != name {
				continue
			}
			for _, l := range h.Levels {
				names[l.Name] = true
			}
			if level, ok := h.Find(e.Level); ok && left > 0 {
				n := min(left, h.Cells(level)-vc.count(i, level))
				vc.Quotas = append(vc.Quotas, Quota{i, level, n})
				left -= n
			}
		}
		if left > 0 && wrong == nil {
			wrong = fmt.Errorf("cells: %s: there are only %d; levels here are %s", e, e.Count-left, strings.Join(sorted(names), ", "))
		}
	}
	return wrong
}

// count is how many cells of a level are promised already.
func (vc *VC) count(chain, level int) (n int) {
	for _, q := range vc.Quotas {
		if q.Chain == chain && q.Level == level {
			n += q.Count
		}
	}
	return n
}

// stock is cells that have not been promised yet.
type stock struct {
	forest *Forest
	space  *Space
}

func newStock(f *Forest) *stock { return &stock{f, NewSpace(f, nil)} }

// take promises cells with so many GPUs in all, the largest first up to a node.
func (s *stock) take(gpus int) []Quota {
	var out []Quota
	for i, c := range s.space.chains {
		for level := c.Node; level >= 0 && gpus > 0; level-- {
			n := 0
			for size := c.Levels[level].GPUs; gpus >= size && c.canPromise(level); gpus -= size {
				c.unbound[level]++
				n++
			}
			if n > 0 {
				out = append(out, Quota{i, level, n})
			}
		}
	}
	return out
}
