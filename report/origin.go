package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Origin is what a run was made from, so that it can be made again.
type Origin struct {
	Norn    string `json:"norn"`    // version of the program
	Command string `json:"command"` // "sim" or "plan"

	Trace  Input   `json:"trace"`            // the path is empty for the built-in trace
	Policy string  `json:"policy"`           // with its settings
	Flags  []Flag  `json:"flags"`            // all that were given and bear on the result, in order of their names
	Inputs []Input `json:"inputs,omitempty"` // files that flags name
}

// With is the origin of the run of a policy, named with its settings; nil for nil.
func (o *Origin) With(policy string) *Origin {
	if o == nil {
		return nil
	}
	one := *o
	one.Policy = policy
	return &one
}

// Flag is a flag as it was given. One with several values is there once for each.
type Flag struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Input is a file or folder that was read.
type Input struct {
	Flag   string `json:"flag,omitempty"` // that names it; empty for the trace
	Path   string `json:"path"`
	SHA256 string `json:"sha256,omitempty"` // in hexadecimal digits; of a folder, that of all files in it; empty where it could be read only once
}

// ReadOrigin reads from a summary, as WriteSummary writes it, what the run was made from.
// It fails where the summary does not tell.
func ReadOrigin(r io.Reader) (*Origin, error) {
	var s struct {
		Made *Origin `json:"made"`
	}
	if err := json.NewDecoder(r).Decode(&s); err != nil {
		return nil, fmt.Errorf("is no summary of a run: %w", err)
	}
	if s.Made == nil || s.Made.Policy == "" {
		return nil, errors.New("does not tell what the run was made from: it is no summary.json of norn, or of an earlier version")
	}
	return s.Made, nil
}
