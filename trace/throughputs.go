package trace

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/norn-scheduler/norn/perf"
)

// ReadThroughputs reads a table of measured throughputs as Gavel and Shockwave
// publish them (JSON): GPU type, with _unconsolidated for gangs that are spread,
// -> "('job type', GPUs)" -> "null" -> steps per second alone. What jobs do beside
// others is left out. Speeds are relative to those on the reference type.
func ReadThroughputs(path, reference string) (*perf.Table, error) {
	var all map[string]map[string]gavelAlone
	if err := readJSON(path, &all); err != nil {
		return nil, err
	}
	table := &perf.Table{Reference: strings.ToLower(reference)}
	for typ, jobs := range all {
		name, spread := strings.CutSuffix(strings.ToLower(typ), "_unconsolidated")
		for key, speeds := range jobs {
			model, gpus, ok := gavelKey(key)
			if !ok {
				return nil, fmt.Errorf("%s: %q is not a job type and a number of GPUs", path, key)
			}
			var alone float64
			if err := json.Unmarshal(speeds.Null, &alone); err != nil {
				return nil, fmt.Errorf("%s: the speed of %q alone: %w", path, key, err)
			}
			table.Add(perf.Measured{Job: model, GPUs: gpus, Type: name, Spread: spread}, alone)
		}
	}
	if table.Len() == 0 {
		return nil, fmt.Errorf("%s: has no throughputs", path)
	}
	return table, nil
}
