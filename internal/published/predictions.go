package published

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/norn-scheduler/norn/internal/published/lucid"
)

// predictions are the names under which the predictions of Lucid's qssf come.
var predictions = []string{"venus_sept_lgb_qssf_priority.csv.gz", "venus_sept_lgb_qssf_priority.csv"}

// findPredictions finds the predicted run times for a trace where none are
// named: beside the trace, or in the folder data/helios beside or above it.
func findPredictions(trace string) (string, error) {
	if path := near(trace, "helios", predictions); path != "" {
		return path, nil
	}
	return "", fmt.Errorf("qssf needs predicted run times (columns job_id and priority): name the file with --priorities; "+
		"there is no %s beside %s or in data/helios above it", predictions[0], trace)
}

// findLucid finds what policy lucid of Lucid needs where it is not named: beside the
// trace, or in the folders data/helios and data/lucid beside or above it.
func findLucid(trace string, o *lucid.Options) error {
	for _, w := range []struct {
		path         *string
		folder, name string
	}{
		{&o.Priorities, "helios", "venus_sept_ebm_lucid_priority.csv"}, {&o.Forecast, "helios", "venus_throughput_pred_sept.csv"},
		{&o.Scores, "lucid", "single_data.csv"}, {&o.Pairs, "lucid", "colocate_info.csv"},
	} {
		if *w.path == "" {
			*w.path = near(trace, w.folder, []string{w.name + ".gz", w.name})
		}
		if *w.path == "" {
			return fmt.Errorf("policy lucid needs the file %s, which is neither beside %s nor in data/%s above it", w.name, trace, w.folder)
		}
	}
	return nil
}

// throughputs are the names under which measured throughputs come, by simulator.
var throughputs = map[string][]string{
	"gavel":     {"simulation_throughputs.json.gz", "simulation_throughputs.json"},
	"shockwave": {"tacc_throughputs.json.gz", "tacc_throughputs.json"},
}

// findThroughputs finds the measured throughputs for a trace of a simulator where
// none are named: beside the trace, or in the folder data/<simulator> beside or above
// it.
func findThroughputs(simulator, trace string) (string, error) {
	names := throughputs[simulator]
	if path := near(trace, simulator, names); path != "" {
		return path, nil
	}
	return "", fmt.Errorf("%s needs measured throughputs: name the file with --speeds; there is no %s beside %s or in data/%s above it",
		simulator, names[0], trace, simulator)
}

// near is the path of a file with one of the names beside a trace, or in the folder
// data/<folder> beside or above it; empty when there is none.
func near(trace, folder string, names []string) string {
	at, err := filepath.Abs(trace)
	if err != nil {
		return ""
	}
	here := filepath.Dir(at)
	places := []string{here}
	for {
		places = append(places, filepath.Join(here, "data", folder))
		up := filepath.Dir(here)
		if up == here {
			break
		}
		here = up
	}
	for _, place := range places {
		for _, name := range names {
			path := filepath.Join(place, name)
			if _, err := os.Stat(path); err == nil {
				return path
			}
		}
	}
	return ""
}
