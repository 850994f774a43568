package tenant

import (
	"fmt"
	"iter"
	"strconv"
	"strings"
)

// Cells is what cells of the cluster a tenant is promised (package policy/kit/cells), as text:
// node=3, V100:4=2, @n17. Each entry is a number of cells of a level, of a GPU type where it names
// one, or a cell that is pinned, by its name. The text is canonical: equal promises in the same order are equal.
type Cells string

// CellEntry is one entry.
type CellEntry struct {
	Type   string // GPU type; empty: any
	Level  string // node, the number of GPUs of a part of a node, or a level of the topology; of a pinned cell its name
	Count  int
	Pinned bool // it is this very cell
}

// mostCells is the largest number of cells in an entry.
const mostCells = 10_000_000

// String writes the entry.
func (e CellEntry) String() string {
	switch {
	case e.Pinned:
		return "@" + e.Level
	case e.Type != "":
		return e.Type + ":" + e.Level + "=" + strconv.Itoa(e.Count)
	}
	return e.Level + "=" + strconv.Itoa(e.Count)
}

// ParseCells reads entries with commas between them. The error shows the entry.
func ParseCells(text string) (Cells, error) {
	var all []string
	seen := map[string]bool{}
	for entry := range strings.SplitSeq(text, ",") {
		entry = strings.TrimSpace(entry)
		if entry == "" {
			continue
		}
		e, err := parseCell(entry)
		if err != nil {
			return "", err
		}
		if key := e.Type + ":" + e.Level; seen[key] {
			return "", fmt.Errorf("%q: a level, or a cell, is given twice", entry)
		} else {
			seen[key] = true
		}
		all = append(all, e.String())
	}
	return Cells(strings.Join(all, ", ")), nil
}

func parseCell(entry string) (e CellEntry, err error) {
	if name, pinned := strings.CutPrefix(entry, "@"); pinned && name != "" {
		return CellEntry{Level: strings.TrimSpace(name), Pinned: true}, nil
	}
	what, number, told := strings.Cut(entry, "=")
	if e.Count, err = strconv.Atoi(strings.TrimSpace(number)); !told || err != nil || e.Count < 1 || e.Count > mostCells {
		return e, fmt.Errorf("%q: write how many cells of which level, such as node=3, V100:4=2, or @n17 for the cell n17", entry)
	}
	e.Level = strings.TrimSpace(what)
	if typ, level, typed := strings.Cut(what, ":"); typed {
		e.Type, e.Level = strings.TrimSpace(typ), strings.TrimSpace(level)
	}
	if e.Level == "" {
		return e, fmt.Errorf("%q names no level", entry)
	}
	return e, nil
}

// All visits the entries. It leaves out what cannot be read.
func (c Cells) All() iter.Seq[CellEntry] {
	return func(yield func(CellEntry) bool) {
		for entry := range strings.SplitSeq(string(c), ",") {
			if e, err := parseCell(strings.TrimSpace(entry)); err == nil && !yield(e) {
				return
			}
		}
	}
}

// SetCells says what cells a tenant is promised.
func (t *Tree) SetCells(id ID, c Cells) { t.all[id].Cells = c }
