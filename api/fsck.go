package api

// Fsck is what Norn keeps, held against itself.
type Fsck struct {
	Folder   string    `json:"folder" doc:"The state folder."`
	Logs     int       `json:"logs" doc:"Event logs that were read."`
	Events   int64     `json:"events" doc:"Lines of them."`
	Ended    int       `json:"ended" doc:"Lines of the history of jobs."`
	Jobs     int       `json:"jobs" doc:"Descriptions of jobs."`
	Runs     int       `json:"runs" doc:"Folders of runs."`
	Findings []Finding `json:"findings" doc:"What was found wrong."`
}

// Finding is one thing that was found wrong with what Norn keeps.
type Finding struct {
	File string `json:"file,omitempty" doc:"Below the state folder."`
	Job  string `json:"job,omitempty" doc:"The job that it is about."`
	Text string `json:"text" doc:"What is wrong: a sentence."`
	Done string `json:"done,omitempty" doc:"What was done about it; none: nothing."`
}
