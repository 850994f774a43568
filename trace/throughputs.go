package trace

import (
	"errors"
	"fmt"
	"strings"

	"github.com/norn-scheduler/norn/internal/jsontext"
	"github.com/norn-scheduler/norn/perf"
)

// ReadThroughputs reads a table of measured throughputs as Gavel and Shockwave
// publish them (JSON): GPU type, with _unconsolidated for gangs that are
// spread, -> "('job type', GPUs)" -> "null" -> steps per second alone.
// Throughputs of jobs beside others are left out. Speeds are relative to those
// on the reference type.
func ReadThroughputs(path, reference string) (*perf.Table, error) {
	table := &perf.Table{Reference: strings.ToLower(reference)}
	err := readGavelAlone(path, func(typ string) func(model string, gpus int, steps float64) {
		name, spread := strings.CutSuffix(strings.ToLower(typ), "_unconsolidated")
		return func(model string, gpus int, steps float64) {
			table.Add(perf.Measured{Job: model, GPUs: gpus, Type: name, Spread: spread}, steps)
		}
	})
	if err == nil && table.Len() == 0 {
		err = fmt.Errorf("%s: has no throughputs", path)
	}
	if err != nil {
		return nil, err
	}
	return table, nil
}

// readGavelAlone reads the speeds of jobs alone from a table of throughputs, in
// the order of the file, and calls what of returns for each job of a GPU type;
// nil passes over a type. Throughputs of jobs beside others, which are most of
// such a file, are skipped as text.
func readGavelAlone(path string, of func(typ string) func(model string, gpus int, steps float64)) error {
	content, err := readPacked(path)
	if err != nil {
		return err
	}
	t := jsontext.NewReader(content)
	err = t.Object(func(typ []byte) error {
		take := of(string(typ))
		if take == nil {
			return t.Skip()
		}
		return t.Object(func(key []byte) error {
			name := string(key)
			model, gpus, ok := gavelKey(name)
			if !ok {
				return fmt.Errorf("%q is not a job type and a number of GPUs", name)
			}
			steps, err := gavelAlone(t)
			if err != nil {
				return fmt.Errorf("the speed of %q alone: %w", name, err)
			}
			take(model, gpus, steps)
			return nil
		})
	})
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// gavelAlone reads the steps per second of a job without others.
func gavelAlone(t *jsontext.Reader) (steps float64, err error) {
	told := false
	err = t.Object(func(beside []byte) error {
		if string(beside) != "null" {
			return t.Skip()
		}
		told = true
		if steps, err = t.Float(); err == nil && !(steps >= 0 && steps <= mostAmount) {
			err = errors.New("write steps per second from 0, which means that it cannot run, to 1e18")
		}
		return err
	})
	if err == nil && !told {
		err = errors.New("is not told")
	}
	return steps, err
}
