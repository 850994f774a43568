package trace

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
)

// prometheusFormat is answers of the HTTP API of Prometheus, one behind the other, to
// queries for what kube-state-metrics tells of pods. Sources: the HTTP API of Prometheus
// (query, query_range; promtool query -o json writes the inner list alone); the metrics of
// pods of kube-state-metrics 2.
//
// prometheus.go reads the answers, promseries.go puts series together to pods, and pods
// become jobs as those of kubectl do (podgang.go).
func prometheusFormat() Format {
	return Format{
		Name: "prometheus", Aliases: []string{"kube-state-metrics", "ksm"}, Title: "Kubernetes pods of kube-state-metrics, from the HTTP API of Prometheus",
		Clock: Unix, Order: Unsorted,
		Match: func(h *Head) int {
			text := bytes.TrimSpace(h.Text[:min(len(h.Text), 4096)])
			list := bytes.HasPrefix(text, []byte("[")) && bytes.HasPrefix(bytes.TrimSpace(text[1:]), []byte(`{"metric"`))
			if list || bytes.HasPrefix(text, []byte("{")) && bytes.Contains(text, []byte(`"resultType"`)) {
				return 700
			}
			return 0
		},
		Decode: func(in *Input) (Source, error) {
			return &promSource{podSource: podSource{in: in, byKey: map[string]*gang{}, read: true}, pods: map[string]*promPod{}, step: math.Inf(1)}, nil
		},
	}
}

// promSource reads all answers before it gives the first job.
type promSource struct {
	podSource
	pods   map[string]*promPod // by namespace, name and uid
	order  []*promPod          // as they were met
	step   float64             // the shortest time between two samples of a phase, in seconds
	last   float64             // the last sample of any phase, in seconds since 1970
	now    float64             // the last moment that any sample tells of
	phases bool                // phases were asked for over a range of time
	labels bool                // labels of pods were asked for
	done   bool
}

// promSeries is a series: its labels, and samples of a range or of one moment.
type promSeries struct {
	Metric map[string]string `json:"metric"`
	Values []promSample      `json:"values"`
	Value  *promSample       `json:"value"`
}

// promSample is a sample: [seconds since 1970, "value"].
type promSample struct{ at, value float64 }

// UnmarshalJSON reads the pair.
func (s *promSample) UnmarshalJSON(raw []byte) error {
	var pair []json.RawMessage
	if err := json.Unmarshal(raw, &pair); err != nil || len(pair) != 2 {
		return fmt.Errorf("%.40s is no sample", raw)
	}
	var text string
	if err := json.Unmarshal(pair[1], &text); err != nil {
		return fmt.Errorf("%.40s is no value of a sample", pair[1])
	}
	var err error
	if s.at, err = strconv.ParseFloat(string(pair[0]), 64); err != nil {
		return fmt.Errorf("%.40s is no time of a sample", pair[0])
	}
	if s.value, err = strconv.ParseFloat(text, 64); err != nil {
		return fmt.Errorf("%.40q is no value of a sample", text)
	}
	return nil
}

// Next implements Source.
func (s *promSource) Next(e *Entry) error {
	if !s.done {
		s.done = true
		if err := s.readAnswers(); err != nil {
			return err
		}
		s.gather()
	}
	return s.podSource.Next(e)
}

// readAnswers reads the answers, one behind the other.
func (s *promSource) readAnswers() error {
	d := json.NewDecoder(s.in.Body)
	for {
		t, err := d.Token()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		switch t {
		case json.Delim('{'):
			err = s.answer(d)
		case json.Delim('['):
			err = s.list(d)
		default:
			return fmt.Errorf("byte %d: expected an answer of Prometheus", d.InputOffset())
		}
		if errors.Is(err, io.EOF) {
			return io.ErrUnexpectedEOF
		}
		if err != nil {
			return err
		}
	}
}

// answer reads an object behind its first brace: an answer, or the data in it.
func (s *promSource) answer(d *json.Decoder) error {
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return err
		}
		switch key {
		case "data":
			if err = delimiter(d, '{', "an answer of Prometheus"); err == nil {
				err = s.answer(d)
			}
		case "result":
			if err = delimiter(d, '[', "an answer of Prometheus"); err == nil {
				err = s.list(d)
			}
		case "error":
			var text string
			if err = d.Decode(&text); err == nil {
				err = fmt.Errorf("Prometheus has answered with an error: %.200s", text)
			}
		default:
			var skip json.RawMessage
			err = d.Decode(&skip)
		}
		if err != nil {
			return err
		}
	}
	_, err := d.Token()
	return err
}

// list reads series behind their first bracket.
func (s *promSource) list(d *json.Decoder) error {
	for n := 1; d.More(); n++ {
		var one promSeries
		if err := d.Decode(&one); err != nil {
			return fmt.Errorf("series %d: %w", n, err)
		}
		s.series(&one)
	}
	_, err := d.Token()
	return err
}

// promTime is a moment; zero where it is none.
func promTime(since1970 float64) time.Time {
	if !(since1970 > 0 && since1970 < 1e11) {
		return time.Time{}
	}
	whole, part := math.Modf(since1970)
	return time.Unix(int64(whole), int64(math.Round(part*1e3))*1e6).UTC()
}

// promResource is the resource that kube-state-metrics calls so: nvidia_com_gpu.
func promResource(name string) string {
	switch name {
	case "nvidia_com_gpu":
		return "nvidia.com/gpu"
	case "nvidia_com_gpu_shared":
		return "nvidia.com/gpu.shared"
	case "amd_com_gpu":
		return "amd.com/gpu"
	}
	if profile, slice := strings.CutPrefix(name, "nvidia_com_mig_"); slice {
		return "nvidia.com/mig-" + strings.ReplaceAll(profile, "_", ".")
	}
	return name
}
