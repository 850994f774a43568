package trace

import (
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
)

// alibabaGenAI is the trace of a service of Alibaba that makes images on request, with
// adapters on dozens of base models, November and December 2024: each request is a job
// of one GPU for the time that it took.
func alibabaGenAI() Format {
	f := CSV("alibaba-genai", "Alibaba 2026, requests for images from base models with adapters (LoRA)", func(in *Input) *Table {
		return &Table{
			Columns: []Column{
				Col("gmt_create", SubmitWall),
				Col("predict_type", Name),
				Col("predict_status", func(r *Row, v []byte) error {
					switch string(v) {
					case "SUCCEED":
					case "FAILED":
						r.Truth.Outcome = Failed
					case "PENDING", "PROCESSING":
						in.Note("requests that were not done when the log was taken count as done after the time that they had taken")
						r.Truth.AtLeast = true
					default:
						return Want("SUCCEED, FAILED, PENDING or PROCESSING")
					}
					return nil
				}),
				Col("exec_time_seconds", Work(time.Second)),
				Col("groupId", User).Or("unknown"),
				Unused("prompt_length"),
				Unused("negative_prompt_length"),
				Col("num_images_per_prompt", func(r *Row, v []byte) error {
					images, ok := ParseFloat(v)
					if !ok || images < 0 || images > mostBatch {
						return wantBatch
					}
					r.Job.Batch = int(images)
					return nil
				}).Or("unknown"),
				Col("num_inference_steps", Units("steps")).Or("unknown"),
				Col("checkpoint_model_version_id", backbone).Or("none"),
				Unused("num_lora"),
			},
			Finish: func(r *Row) error {
				r.Job.Kind, r.Shape.GPUs = job.Inference, unit.One
				return nil
			},
		}
	})
	f.Clock, f.Order = Unix, Sorted
	return f
}
