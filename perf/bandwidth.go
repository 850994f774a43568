package perf

import (
	"strings"

	"github.com/norn-scheduler/norn/job"
)

// MindsBandwidth tells whether a job is known to be slower where its tasks have less bandwidth
// between them: it says so (job.Hints.Sensitive), or its model is one of those that the authors
// of MAPA (SC 2021) took for sensitive.
func MindsBandwidth(j *job.Job) bool {
	if j.Hints != nil && j.Hints.Sensitive {
		return true
	}
	model := strings.ToLower(j.Model)
	for _, name := range [...]string{"alexnet", "inception", "resnet", "vgg"} {
		if strings.HasPrefix(model, name) {
			return true
		}
	}
	return false
}
