package trace

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/norn-scheduler/norn/perf"
)

// ReadVariability reads how far GPUs of a type differ, as CSV; the file may be packed. It has one of
// two headers:
//
//	node,gpu,CLASS,...                              name of the node, index of the GPU, a score for each class
//	..., Local_GPU_ID, Node_ID, ..., PerfVar_classA, ...  as PAL publishes it; node 3 is n3
//
// Classes are named from the most sensitive one. Scores are run times relative to a typical GPU, above 0.
// An error names the file and the line.
func ReadVariability(path string) (*perf.Variability, error) {
	content, err := readPacked(path)
	if err != nil {
		return nil, err
	}
	v, err := parseVariability(content)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return v, nil
}

// scoreColumns are where a table of scores has what.
type scoreColumns struct {
	columns
	node, gpu, prefix string   // names of columns; prefix is ahead of the name of a node
	scores            []string // by class
}

func parseVariability(content []byte) (*perf.Variability, error) {
	rows, index, err := csvRows(content)
	if err != nil {
		return nil, err
	}
	v := &perf.Variability{Scores: map[perf.Seat][]float64{}}
	at := scoreColumns{columns: index, node: "node", gpu: "gpu"}
	published := index.have("Node_ID", "Local_GPU_ID")
	if published {
		at.node, at.gpu, at.prefix = "Node_ID", "Local_GPU_ID", "n"
	}
	for _, name := range index.inOrder() {
		class, marked := strings.CutPrefix(name, "PerfVar_class")
		if published == marked && name != at.node && name != at.gpu {
			v.Classes, at.scores = append(v.Classes, class), append(at.scores, name)
		}
	}
	if !index.have(at.node, at.gpu) || len(v.Classes) == 0 {
		return nil, errors.New("is no table of scores: it has neither the columns node, gpu and classes of jobs nor Node_ID, Local_GPU_ID and those that begin with PerfVar_class")
	}
	for i, row := range rows {
		seat, scores, err := at.read(row)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", i+2, err)
		}
		if v.Scores[seat] != nil {
			return nil, fmt.Errorf("line %d: GPU %d of node %s is told twice", i+2, seat.Index, seat.Node)
		}
		v.Scores[seat] = scores
	}
	if len(v.Scores) == 0 {
		return nil, errors.New("has no GPUs")
	}
	return v, nil
}

// read reads the scores of one GPU.
func (c *scoreColumns) read(row []string) (seat perf.Seat, scores []float64, err error) {
	if seat.Node = c.text(row, c.node); seat.Node == "" {
		return seat, nil, fmt.Errorf("has no %s", c.node)
	}
	seat.Node = c.prefix + seat.Node
	if seat.Index, err = strconv.Atoi(c.text(row, c.gpu)); err != nil || seat.Index < 0 {
		return seat, nil, fmt.Errorf("%s %q: write the index of a GPU of the node, from 0 on", c.gpu, c.text(row, c.gpu))
	}
	for _, name := range c.scores {
		x, err := c.number(row, name)
		if err != nil || !(x > 0) || math.IsInf(x, 0) {
			return seat, nil, fmt.Errorf("%s %q: write a run time relative to a typical GPU, above 0", name, c.text(row, name))
		}
		scores = append(scores, x)
	}
	return seat, scores, nil
}

// inOrder are the names of the columns, from left to right.
func (c columns) inOrder() []string {
	return slices.SortedFunc(maps.Keys(c), func(a, b string) int { return cmp.Compare(c[a], c[b]) })
}
