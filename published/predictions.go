package published

import (
	"fmt"
	"os"
	"path/filepath"
)

// predictions are the names under which the predictions of Lucid's qssf come.
var predictions = []string{"venus_sept_lgb_qssf_priority.csv.gz", "venus_sept_lgb_qssf_priority.csv"}

// findPredictions finds the predicted run times for a trace where none are
// named: beside the trace, or in the folder data/helios beside or above it.
func findPredictions(trace string) (string, error) {
	at, err := filepath.Abs(trace)
	if err != nil {
		return "", err
	}
	folder := filepath.Dir(at)
	places := []string{folder}
	for {
		places = append(places, filepath.Join(folder, "data", "helios"))
		up := filepath.Dir(folder)
		if up == folder {
			break
		}
		folder = up
	}
	for _, place := range places {
		for _, name := range predictions {
			path := filepath.Join(place, name)
			if _, err := os.Stat(path); err == nil {
				return path, nil
			}
		}
	}
	return "", fmt.Errorf("qssf needs predicted run times (columns job_id and priority): name the file with --priorities; "+
		"there is no %s beside %s or in data/helios above it", predictions[0], trace)
}
