package job

import (
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
)

// Slots are the counted resources that each task of a role needs of its node,
// beside devices, cores and memory: rdma=1|hugepages=1073741824. It is canonical, so
// equal needs are equal texts: names in order, each once, amounts above 0.
type Slots string

// ParseSlots reads entries name=amount with | or commas between them, in any order. An amount
// is a whole number or a size such as 2GiB. Entries of 0 are left out.
func ParseSlots(text string) (Slots, error) {
	amounts := map[string]int64{}
	for entry := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == '|' || r == ',' }) {
		name, written, told := strings.Cut(entry, "=")
		name, written = strings.TrimSpace(name), strings.TrimSpace(written)
		if !told && strings.TrimSpace(entry) == "" {
			continue
		}
		n, err := slotAmount(written)
		switch _, twice := amounts[name]; {
		case !told || err != nil || n < 0:
			return "", fmt.Errorf("%q: write a name and a whole number, as in rdma=1", entry)
		case !cluster.SlotNamed(name):
			return "", fmt.Errorf("%q: the name of a counted resource has letters, digits and ._-/, at most 63", name)
		case twice:
			return "", fmt.Errorf("%s is given twice", name)
		}
		amounts[name] = n
	}
	return SlotsOf(amounts)
}

// slotAmount reads a whole number, or a size with its unit.
func slotAmount(text string) (int64, error) {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil || strings.Trim(text, "0123456789.") == "" {
		return n, err
	}
	n, err := unit.ParseBytes(text)
	return int64(n), err
}

// SlotsOf is the canonical text of amounts by name. Those of 0 are left out.
func SlotsOf(amounts map[string]int64) (Slots, error) {
	var parts []string
	for name, n := range amounts {
		switch {
		case !cluster.SlotNamed(name):
			return "", fmt.Errorf("%q is no name of a counted resource: write letters, digits and ._-/, at most 63", name)
		case n < 0 || n > cluster.MostSlots:
			return "", fmt.Errorf("%s: an amount of %d; from 0 to 2^50 is allowed", name, n)
		case n > 0:
			parts = append(parts, name+"="+strconv.FormatInt(n, 10))
		}
	}
	if len(parts) > cluster.MaxSlots {
		return "", fmt.Errorf("%d counted resources: at most %d are allowed", len(parts), cluster.MaxSlots)
	}
	slices.Sort(parts)
	return Slots(strings.Join(parts, "|")), nil
}

// All visits the names and amounts in order.
func (s Slots) All() iter.Seq2[string, int64] {
	return func(yield func(string, int64) bool) {
		if s == "" {
			return
		}
		for entry := range strings.SplitSeq(string(s), "|") {
			name, written, _ := strings.Cut(entry, "=")
			n, _ := strconv.ParseInt(written, 10, 64) // it was written by SlotsOf
			if !yield(name, n) {
				return
			}
		}
	}
}

// check says what is wrong with a text that may come from anywhere, or nil.
func (s Slots) check() error {
	if s == "" {
		return nil
	}
	if canonical, err := ParseSlots(string(s)); err != nil || canonical != s {
		return fmt.Errorf("asks for the counted resources %q, which is not how they are written", string(s))
	}
	return nil
}

// Slots are the amounts that each task of each role needs of the counted resources
// of a cluster, by role; nil when none needs any. lacks is the first resource that
// the cluster does not know.
func (d *Demand) Slots(c *cluster.Cluster) (all []cluster.Slots, lacks string) {
	for i := range d.Roles {
		for name, n := range d.Roles[i].Slots.All() {
			id, known := c.SlotByName(name)
			if !known {
				return nil, name
			}
			if all == nil {
				all = make([]cluster.Slots, MaxRoles)
			}
			all[i][id] = n
		}
	}
	return all, ""
}
