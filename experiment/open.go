package experiment

import (
	"os"
	"strings"

	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/eventlog/replay"
	"github.com/norn-scheduler/norn/trace"
	"github.com/norn-scheduler/norn/trace/clusterspec"
	"github.com/norn-scheduler/norn/trace/gen"
)

// OpenTrace opens a trace in any format that norn sim takes: those of trace.Formats, an
// event log, a folder with one, and "-" for standard input. It fails as trace.Open does.
func OpenTrace(path string, opt trace.Options) (*trace.Reader, error) {
	opt.Extra = append(opt.Extra[:len(opt.Extra):len(opt.Extra)], replay.Format())
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		if log, err := eventlog.Open(path); err == nil {
			path = log.Path
			log.Close()
		}
	}
	return trace.Open(path, opt)
}

// OpenSample opens the built-in trace, gen.Sample, as if it were a file, so that options
// which select jobs hold for it too. The cluster that suits it is gen.SampleCluster.
func OpenSample(opt trace.Options) (*trace.Reader, error) {
	g, err := gen.Sample()
	if err != nil {
		return nil, err
	}
	var text strings.Builder
	if _, err := trace.WriteJSON(&text, g); err != nil {
		return nil, err
	}
	return trace.NewReader(strings.NewReader(text.String()), "the built-in sample", opt)
}

// Simulated is the world of a log that a simulation wrote: it names its cluster as
// a user wrote it. A live world calls its machine by its name alone.
const Simulated = "sim"

// MachineOf is the machine of a live world as the beginning of its log describes it; nil
// for the log of a simulation, whose header names the cluster as a user wrote it.
// It reads on in the log.
func MachineOf(log *eventlog.File) (*clusterspec.Spec, error) {
	if w := log.Header.World; w == "" || w == Simulated {
		return nil, nil
	}
	c, err := replay.Machine(log.Reader)
	if err != nil {
		return nil, err
	}
	return clusterspec.Of(c)
}
