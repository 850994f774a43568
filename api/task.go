package api

// Report is what a task of a running job tells of its progress. All fields are
// optional; a later report adds to earlier ones of the same run.
type Report struct {
	Rank     int     `json:"rank" minimum:"0" doc:"Of the task that reports."`
	Step     int64   `json:"step,omitempty" minimum:"0" doc:"Optimiser steps done since the beginning of the job, over all its runs."`
	Steps    int64   `json:"steps,omitempty" minimum:"0" doc:"Steps of the whole job, where known."`
	Epoch    float64 `json:"epoch,omitempty" minimum:"0"`
	Samples  int64   `json:"samples,omitempty" minimum:"0" doc:"Samples trained since the beginning of the job."`
	At       Seconds `json:"at,omitempty" minimum:"0" doc:"When steps and samples stood so, by a clock of the task that begins anywhere and only moves on; without, when the report arrives."`
	Loss     float64 `json:"loss,omitempty"`
	StepTime Seconds `json:"step_time,omitempty" minimum:"0" doc:"Mean time of a step since the last report."`
	Alone    Seconds `json:"step_time_alone,omitempty" minimum:"0" doc:"Time of a step when nobody shares the devices, where the program knows it."`
	Compute  Seconds `json:"compute_time,omitempty" minimum:"0" doc:"Of that: forward and backward."`
	Sync     Seconds `json:"sync_time,omitempty" minimum:"0" doc:"Of that: waiting for gradients of others."`

	GradSqr      float64            `json:"grad_sqr,omitempty" minimum:"0" doc:"Estimate of the squared norm of the gradient."`
	GradVar      float64            `json:"grad_var,omitempty" minimum:"0" doc:"Estimate of the variance of the gradient."`
	Batch        int                `json:"batch,omitempty" minimum:"0" maximum:"2147483647" doc:"Global batch size: samples of an optimiser step, of all tasks together."`
	Noise        float64            `json:"noise,omitempty" minimum:"0" doc:"Gradient noise scale in samples; without it, grad_var over grad_sqr."`
	LocalBatch   int                `json:"local_batch,omitempty" minimum:"0" doc:"Samples a task takes in one pass."`
	Accumulation int                `json:"accumulation,omitempty" minimum:"0" doc:"Passes between two optimiser steps."`
	LearningRate float64            `json:"lr,omitempty" minimum:"0"`
	Stages       map[string]Seconds `json:"stages,omitempty" doc:"Time of a step by stage: storage, cpu, gpu, network."`
	Memory       Bytes              `json:"memory,omitempty" doc:"Main memory that the task uses."`
	GPUMemory    Bytes              `json:"gpu_memory,omitempty" doc:"Peak GPU memory that the task has used."`
	Quality      map[string]float64 `json:"quality,omitempty" doc:"Measures on validation data, such as accuracy."`
	Embedding    []float64          `json:"embedding,omitempty" maxItems:"256" doc:"What the task is like, to compare it with others that tune the same backbone."`

	Paced      bool        `json:"paced,omitempty" doc:"The task keeps to the throttle of orders by itself, between its steps."`
	Checkpoint *Checkpoint `json:"checkpoint,omitempty" doc:"A checkpoint that is complete on disk."`
	Finished   bool        `json:"finished,omitempty" doc:"The job has done all its work, and will exit with 0."`
}

// Checkpoint is a state that a job can go on from.
type Checkpoint struct {
	Step int64  `json:"step" minimum:"0"`
	Path string `json:"path,omitempty" maxLength:"4096"`
}

// Order is what a task is told to do. An order stays until it is carried out, so
// that a task that asks again is told again.
type Order struct {
	Kind  OrderKind `json:"kind" enum:"go-on,stop,batch" doc:"go-on: nothing to do; stop: write a checkpoint and exit with 75; batch: train with another batch size."`
	Grace Seconds   `json:"grace,omitempty" doc:"stop: time left before it is killed."`
	Why   string    `json:"why,omitempty" doc:"stop: a sentence."`
	Size  int       `json:"size,omitempty" doc:"stop: the number of tasks it will be started with again, where that is known."`
	Batch int       `json:"batch,omitempty" doc:"batch: the global batch size."`

	Throttle int `json:"throttle,omitempty" minimum:"0" maximum:"1000" doc:"With any kind: thousandths of the time for which the job leaves its devices to others, if it paces itself."`
}

// OrderKind is what an order asks for.
type OrderKind string

// The orders.
const (
	GoOn      OrderKind = "go-on"
	StopNow   OrderKind = "stop"
	BatchSize OrderKind = "batch"
)

// Allocation is what a task may use: the answer to the question where am I.
type Allocation struct {
	Job       string   `json:"job"`
	Run       int      `json:"run" doc:"From 1; more than 1: it was started before."`
	Tasks     int      `json:"tasks" doc:"World size."`
	Devices   []string `json:"devices"`
	GPUs      float64  `json:"gpus"`
	Host      bool     `json:"host,omitempty" doc:"Its devices are parts of the processors: it runs without a GPU."`
	CPUs      float64  `json:"cpus,omitempty"`
	Memory    Bytes    `json:"mem,omitempty"`
	Elastic   bool     `json:"elastic" doc:"It may be started again with another number of tasks."`
	Batch     int      `json:"batch,omitempty"`
	StopMode  string   `json:"stop_mode"`
	Grace     Seconds  `json:"grace,omitempty"`
	Resumable bool     `json:"resumable" doc:"A run before this one left a checkpoint, or may have."`
	GPUMemory Bytes    `json:"gpu_mem,omitempty" doc:"Memory of each of its GPUs that is meant for it, where it shares them."`
	Throttle  int      `json:"throttle,omitempty" doc:"Thousandths of the time for which it leaves its devices to others."`
	Merge     Merge    `json:"merge,omitzero" doc:"With which job it is trained, where the policy has merged them."`
}

// Merge is how a job is trained with another one of its backbone.
type Merge struct {
	How        string `json:"how,omitempty" enum:"together,after" doc:"together: as one, on the same devices; after: it goes on from what the other has learnt."`
	With       string `json:"with,omitempty" doc:"Number of the other job."`
	Checkpoint string `json:"checkpoint,omitempty" doc:"The last one that the other has reported; of another user only where the job's own may read it."`
}

// Input is what is typed at the terminal of a job, and how large that is from now on.
type Input struct {
	Data []byte `json:"data,omitempty" maxLength:"65536" doc:"In base64."`
	Rows uint16 `json:"rows,omitempty" doc:"0: as before."`
	Cols uint16 `json:"cols,omitempty" doc:"0: as before."`
}
