package trace

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
)

// ReadPlans reads how long iterations of large models take in each cell (JSON). A model is named with
// its batch, such as bert_1.3B_128, and a cell is 2_a40_2_n_1_d: two nodes with one GPU each. The file
// is one of two that Arena publishes. The best plans that were measured stand under "optimal", a
// number of seconds for each cell. What was estimated of all plans has a list for each cell: plan and
// times, the last of which is that of an iteration. A model that has no plan in a cell, or a time of 0
// or less, cannot run there.
func ReadPlans(path string) (*perf.Plans, error) {
	p := &perf.Plans{}
	var wrong error
	err := readArenaPlans(path, func(model string, c perf.Cell, seconds float64) {
		name, batch, _ := cutLast(model, "_")
		n, err := strconv.Atoi(batch)
		if err != nil || n < 1 {
			wrong = errors.Join(wrong, fmt.Errorf("%s: %q does not end with a batch", path, model))
			return
		}
		p.Add(perf.Trained{Model: name, Batch: n}, c, max(0, seconds))
	})
	if err = errors.Join(err, wrong); err != nil {
		return nil, err
	}
	return p, nil
}

// IsPlans tells whether a file of speeds is one for ReadPlans: whether it names cells.
func IsPlans(path string) bool {
	content, err := readPacked(path)
	return err == nil && arenaCells.Match(content)
}

// arenaCells is how a cell is written: 2_a40_2_n_1_d.
var arenaCells = regexp.MustCompile(`"\d+_([^"_]+)_(\d+)_n_(\d+)_d"`)

// cutLast cuts a text at the last separator.
func cutLast(text, separator string) (before, after string, found bool) {
	if i := strings.LastIndex(text, separator); i >= 0 {
		return text[:i], text[i+len(separator):], true
	}
	return text, "", false
}

// readArenaPlans visits what a file of plans tells of each model and cell; at most 0: it cannot run
// there.
func readArenaPlans(path string, visit func(model string, c perf.Cell, seconds float64)) error {
	content, err := readPacked(path)
	if err != nil {
		return err
	}
	// A time that is not finite is written as no JSON: such a plan cannot run.
	content = regexp.MustCompile(`-?\bInfinity\b|\bNaN\b`).ReplaceAll(content, []byte("0"))
	var all map[string]json.RawMessage
	if err := json.Unmarshal(content, &all); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if best, ok := all["optimal"]; ok {
		all = nil
		if err := json.Unmarshal(best, &all); err != nil {
			return fmt.Errorf("%s: optimal: %w", path, err)
		}
	}
	found := false
	for _, model := range slices.Sorted(maps.Keys(all)) {
		var cells map[string]json.RawMessage
		if err := json.Unmarshal(all[model], &cells); err != nil {
			return fmt.Errorf("%s: %q: %w", path, model, err)
		}
		for _, key := range slices.Sorted(maps.Keys(cells)) {
			c, err := arenaCell(key)
			if err != nil {
				return fmt.Errorf("%s: %q: %w", path, model, err)
			}
			seconds, err := arenaSeconds(cells[key])
			if err != nil {
				return fmt.Errorf("%s: %q, %s: %w", path, model, key, err)
			}
			found = true
			visit(model, c, seconds)
		}
	}
	if !found {
		return fmt.Errorf("%s: holds no plans", path)
	}
	return nil
}

// arenaCell reads a cell such as 2_a40_2_n_1_d: two nodes with one device each, whatever stands
// before the type.
func arenaCell(key string) (c perf.Cell, err error) {
	parts := arenaCells.FindStringSubmatch(`"` + key + `"`)
	if parts == nil {
		return c, fmt.Errorf("%q is no cell: write 2_a40_2_n_1_d for two nodes with one A40 each", key)
	}
	nodes, err1 := strconv.Atoi(parts[2])
	each, err2 := strconv.Atoi(parts[3])
	if err1 != nil || err2 != nil || min(nodes, each) < 1 || max(nodes, each) > job.MaxTasks {
		return c, fmt.Errorf("%q is not a number of nodes and devices", key)
	}
	return perf.Cell{Type: strings.ToLower(parts[1]), Nodes: nodes, Each: each}, nil
}

// arenaSeconds is the time of an iteration with the best plan of a cell, which is told alone or at
// the end of each plan; 0: there is none.
func arenaSeconds(text json.RawMessage) (seconds float64, err error) {
	if json.Unmarshal(text, &seconds) == nil {
		return seconds, possible(seconds)
	}
	var plans []json.RawMessage
	if json.Unmarshal(text, &plans) != nil {
		return 0, errors.New("write the seconds of an iteration, or a list of plans that end with them")
	}
	for _, plan := range plans {
		var s float64
		var parts []json.RawMessage
		if json.Unmarshal(plan, &parts) == nil && len(parts) > 0 {
			plan = parts[len(parts)-1]
		}
		if json.Unmarshal(plan, &s) != nil {
			return 0, errors.New("write the seconds of an iteration at the end of a plan")
		}
		if err := possible(s); err != nil {
			return 0, err
		}
		if s > 0 && (seconds == 0 || s < seconds) {
			seconds = s
		}
	}
	return seconds, nil
}

// possible says what is wrong with a time, or nil.
func possible(seconds float64) error {
	if seconds > mostAmount {
		return fmt.Errorf("an iteration of %v seconds", seconds)
	}
	return nil
}
