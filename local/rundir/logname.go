package rundir

import (
	"strconv"
	"strings"
)

// placeholders are those of Run.Log, each with what stands for it in a run, as
// strings.NewReplacer takes them.
func (r *Run) placeholders() []string {
	array, index, isArray := strings.Cut(r.Job, "_")
	if !isArray {
		index = "0"
	}
	return []string{
		"%%", "%", "%j", r.Job, "%A", array, "%a", index, "%x", strings.ReplaceAll(r.Name, "/", "-"),
		"%r", strconv.Itoa(r.Run), "%u", strings.ReplaceAll(r.Owner, "/", "-"),
	}
}

// LogName is Run.Log with its placeholders filled in.
func (r *Run) LogName() string { return strings.NewReplacer(r.placeholders()...).Replace(r.Log) }

// IsLogName tells whether every % of a name for Run.Log begins a placeholder.
func IsLogName(log string) bool {
	empty := (&Run{}).placeholders()
	for i := 1; i < len(empty); i += 2 {
		empty[i] = ""
	}
	return !strings.Contains(strings.NewReplacer(empty...).Replace(log), "%")
}
