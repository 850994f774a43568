package replay

import (
	"fmt"
	"strings"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
)

// MeasuredText says what was measured of a job: its figures, and of series the first and
// the last number.
func MeasuredText(m *perf.Reading) string {
	var parts []string
	for _, v := range m.Values {
		switch n := len(v.Series); n {
		case 1:
			parts = append(parts, fmt.Sprintf("%s %.4g", v.Name, v.Series[0]))
		default:
			parts = append(parts, fmt.Sprintf("%s %.4g to %.4g (%d numbers)", v.Name, v.Series[0], v.Series[n-1], n))
		}
	}
	on := "with " + unit.Count(m.Setup.Tasks, "task")
	if m.Setup.How != job.Apart {
		on += ", trained " + m.Setup.How.String() + " one on " + m.Setup.With
	}
	if n := len(m.Setup.Beside); n > 0 {
		on += ", beside " + unit.Count(n, "job")
	}
	return "is measured " + on + ": " + strings.Join(parts, ", ")
}
