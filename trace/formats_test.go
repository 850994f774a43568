package trace_test

import (
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/trace"
)

// samples are a few rows of each format, made up in the layout of the published
// files, and the whole of what comes out.
var samples = []struct {
	format, text string
	want         []string
}{
	{"philly", `submit_time,vc,num_gpus,num_attempts,run_s,attempt_run_s,passed,status,user,num_nodes,match
2017-10-01 00:00:10,6214e9,8,3,600,100|200|300,0,Killed,7,1,exact
2017-10-01 00:00:12,,1,,50,,1,,,,total
2017-10-01 00:00:12,,2,1,60,60,0,Pass,,,novc
`, []string{
		`{"job":"0","gpus":8,"work":300,"attempts":[100,200],"outcome":"killed","user":"7","tenant":"6214e9"}`,
		`{"job":"1","submit":2,"gpus":1,"work":50}`,
		`{"job":"2","submit":2,"gpus":2,"work":60,"outcome":"failed"}`,
	}},
	{"philly-passed", "timestamp,duration,num_gpus,gpu_time,cluster\n2017-10-09 07:01:55,66.0,1,66.0,a\n2017-10-09 06:13:03,2951.0,2,5902.0,b\n\n", []string{
		`{"job":"1","gpus":2,"work":2951,"tenant":"b"}`,
		`{"job":"0","submit":2932,"gpus":1,"work":66,"tenant":"a"}`,
	}},
	{"philly-pcs", "app_id,submit_time,service,num_jobs,sleep_time,model_name\n0,0.0,100.0,1,0.0,ChatbotModel256\n1,5.0,1000.0,2,5.0,ChatbotModel256\n", []string{
		`{"job":"0","gpus":1,"work":100,"model":"ChatbotModel256"}`,
		`{"job":"1","submit":5,"gpus":2,"work":699.845,"model":"ChatbotModel256"}`,
	}},
	{"philly-attempts", ",run_time,wait_time,submit_time,gpu_num\n0,10,99,1509850000,1\n1,20,0,1509864000,8\n", []string{
		`{"job":"0","gpus":1,"work":10}`,
		`{"job":"1","submit":10400,"gpus":8,"work":20}`, // the clocks went back in between
	}},
	{"gen-parallel", "u_id,user,gpu_num,cpu_num,node_num,interval,run_time,wall_time,new_status\n5,1,0,24,2,0,84,0,Pass\n6,2,16,16,2,30,87,0,Killed\n", []string{
		`{"job":"5","roles":[{"tasks":2,"cpu":12}],"work":84,"user":"1"}`,
		`{"job":"6","submit":30,"roles":[{"tasks":16,"gpu":1,"cpu":1}],"work":87,"outcome":"killed","user":"2"}`,
	}},
	{"helios", "job_id,row_in_cluster_log,submit_time,num_gpus,duration_s,duration_clamped,qssf_lgb_priority,lucid_ebm_priority,user,cpu_num,node_num,status\n" +
		"9,0,2020-03-18 04:01:39,32,172800,1,,,,,,\n10,1,2020-03-18 04:02:39,1,84,0,10326,-12,4,1,1,Failed\n", []string{
		`{"job":"9","gpus":32,"work":172800,"at_least":true}`,
		`{"job":"10","submit":60,"gpus":1,"work":84,"outcome":"failed","user":"4","hints":{"group_estimate":0.000000001,"rank":10326}}`,
	}},
	{"helios-clamped", "job_id,arrival_s,service_sec,gpu_count\n363167#0,0.0,172800.0,32\n394948#2,651507.0,7.5,8\n", []string{
		`{"job":"363167#0","gpus":32,"work":172800,"at_least":true}`,
		`{"job":"394948#2","submit":651507,"gpus":8,"work":7.5}`,
	}},
	{"pai-2020", "job_id,arrival_s,service_sec,gpu_count\nali-1-worker#2,16670.0,167731.0,8\n", []string{
		`{"job":"ali-1-worker#2","submit":16670,"gpus":8,"work":167731}`,
	}},
	{"helios-log", "job_id,user,vc,jobname,gpu_num,cpu_num,state,submit_time,duration,dataset,model,batchsize,amp,speed,gpu_util,gmem_util,gmem\n" +
		"1,u0,vcA,train,8,48,COMPLETED,2020-04-01 00:00:00,60,SQuAD,BERT,32,1,84.5,50,25,2048\n" +
		"2,u1,vcB,eval,0,12,CANCELLED,2020-04-01 00:00:01,61,,,,,,,,\n", []string{
		`{"job":"1","roles":[{"tasks":8,"gpu":1,"cpu":6}],"work":60,"name":"train","user":"u0","tenant":"vcA","model":"BERT","dataset":"SQuAD","batch":32,"hints":{"speed":84.5,"gpu_use":0.5,"memory_use":0.25,"gpu_mem":2147483648,"mixed":true}}`,
		`{"job":"2","submit":1,"roles":[{"tasks":1,"cpu":12}],"work":61,"outcome":"killed","name":"eval","user":"u1","tenant":"vcB"}`,
	}},
	{"helios-log", "job_id,user,vc,jobname,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n" +
		"3,u,v,n,2,4,1,TIMEOUT,2020-04-01 00:00:00,2020-04-01 00:00:07,2020-04-01 00:01:07,60,7\n", []string{
		`{"job":"3","roles":[{"tasks":2,"gpu":1,"cpu":2}],"work":60,"outcome":"failed","wait":7,"name":"n","user":"u","tenant":"v"}`,
	}},
	{"itp", "job_id,submission_time,duration,num_gpu\nd3,3793,1183,1\n", []string{`{"job":"d3","submit":3793,"gpus":1,"work":1183}`}},
	{"itp", "job_id,submission_time,num_iteration,model_name,deadline,batch_size,num_gpu,duration\nd3,3793,4847,gpt2,4573,256,2,1183\n", []string{
		`{"job":"d3","submit":3793,"gpus":2,"work":1183,"model":"gpt2","batch":256,"units":4847,"unit":"iterations","deadline":4573}`,
	}},
	{"pai", "job_id,user,gpu_type,num_gpu,num_cpu,submit_time,num_inst,duration,user_dur,group_dur,group_gpu_dur\n" +
		"0,u05,CPU,0,2,6,1,98551,71472.7,88331.3,125546.7\n1,u55,V100,0.5,6,11,4,904,1657.4,3843.1,931.1\n", []string{
		`{"job":"0","submit":6,"roles":[{"tasks":1,"cpu":2}],"work":98551,"user":"u05","hints":{"user_estimate":71472.7,"group_estimate":88331.3,"group_gpu_estimate":125546.7}}`,
		`{"job":"1","submit":11,"types":"V100","roles":[{"tasks":4,"gpu":0.5,"cpu":6}],"work":904,"user":"u55","hints":{"user_estimate":1657.4,"group_estimate":3843.1,"group_gpu_estimate":931.1}}`,
	}},
	{"openb", "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n" +
		"a,12000,16384,1,460,V100M16|V100M32,LS,Running,0,100,0\nb,8000,1024,8,1000,,BE,Failed,5,25,9\nc,500,1,0,0,,BE,Pending,7,8,\n", []string{
		`{"job":"a","types":"V100M16|V100M32","roles":[{"tasks":1,"gpu":0.46,"cpu":12,"mem":17179869184}],"work":100,"wait":0,"hints":{"qos":"LS"}}`,
		`{"job":"b","submit":5,"roles":[{"tasks":1,"gpu":8,"cpu":8,"mem":1073741824}],"work":20,"outcome":"failed","wait":4,"hints":{"qos":"BE"}}`,
		`{"job":"c","submit":7,"roles":[{"tasks":1,"cpu":0.5,"mem":1048576}],"work":1,"outcome":"killed","hints":{"qos":"BE"}}`,
	}},
	{"openb", "name,cpu_milli,memory_mib,num_gpu,gpu_milli\na,12000,0,1,1000\n", []string{
		`{"job":"a","roles":[{"tasks":1,"gpu":1,"cpu":12}],"work":86400000,"at_least":true}`,
	}},
	{"alibaba-dlrm", "instance_sn,role,app_name,cpu_request,cpu_limit,gpu_request,gpu_limit,rdma_request,rdma_limit,memory_request,memory_limit,disk_request,disk_limit,max_instance_per_node,creation_time,scheduled_time,deletion_time\n" +
		"a,HN,app_0,12,12,1,1,25,25,120.0,120.0,680.0,800.0,8,,,30\nb,CN,app_1,64,64,0,0,0,0,0.5,1.0,1,1,-1,10.5,12.5,\nc,HN,app_0,8,8,1,1,25,25,1.0,1.0,1,1,8,20,21,25.5\n", []string{
		`{"job":"a","roles":[{"tasks":1,"gpu":1,"cpu":12,"mem":128849018880}],"work":30,"at_least":true,"name":"app_0","kind":"inference","hints":{"group":"app_0","qos":"HN"}}`,
		`{"job":"b","submit":10.5,"roles":[{"tasks":1,"cpu":64,"mem":536870912}],"work":86400000,"at_least":true,"name":"app_1","kind":"inference","hints":{"group":"app_1","qos":"CN"}}`,
		`{"job":"c","submit":20,"roles":[{"tasks":1,"gpu":1,"cpu":8,"mem":1073741824}],"work":5.5,"wait":1,"name":"app_0","kind":"inference","hints":{"group":"app_0","qos":"HN"}}`,
	}},
	{"alibaba-genai", "gmt_create,predict_type,predict_status,exec_time_seconds,groupId,prompt_length,negative_prompt_length,num_images_per_prompt,num_inference_steps,checkpoint_model_version_id,num_lora\n" +
		"2024-11-15 16:57:50,TXT_2_IMG,SUCCEED,32.0,G0000,63.0,26.0,4.0,30.0,M0000,0\n2024-11-15 16:58:00,IMG_2_IMG,FAILED,5.0,G0001,93.0,,,,M0001,1\n2024-11-15 16:58:01,TXT_2_IMG,PENDING,7.0,G0001,93.0,,1.0,28.0,M0001,2\n", []string{
		`{"job":"0","gpus":1,"work":32,"name":"TXT_2_IMG","user":"G0000","kind":"inference","backbone":"M0000","batch":4,"units":30,"unit":"steps"}`,
		`{"job":"1","submit":10,"gpus":1,"work":5,"outcome":"failed","name":"IMG_2_IMG","user":"G0001","kind":"inference","backbone":"M0001"}`,
		`{"job":"2","submit":11,"gpus":1,"work":7,"at_least":true,"name":"TXT_2_IMG","user":"G0001","kind":"inference","backbone":"M0001","batch":1,"units":28,"unit":"steps"}`,
	}},
	{"kalos", "job_id,arrival_time,num_iteration,iteration_computing_time,iteration_networking_time,gpu_workers,ps,gpu_per_worker,cpu_per_gpu_worker,cpu_per_ps_worker,tensorsizes,profiled_network\n1,313.0,156,0.5,0.25,2,0,8.0,15.0,15.0,10.0,500\n", []string{
		`{"job":"1","submit":313,"roles":[{"tasks":2,"gpu":8,"cpu":120}],"work":78}`,
	}},
	{"thetagpu", ",job,user,project,state,gpu_num,cpu_num,node_num,submit_time,wait_time,run_time,wall_time,node_hour,new_status\n" +
		"1,11,0.0,3.0,0,1.0,0,1.0,1672529437.0,6.0,3602.3,3600.0,1.0,Failed\n0,10,2.0,3.0,0,2.0,0,2.0,1672529197.0,5.0,2305.5,3600.0,0.6,Pass\n", []string{
		`{"job":"10","gpus":2,"work":2305.5,"wait":5,"user":"2.0","tenant":"3.0","estimate":3600}`,
		`{"job":"11","submit":240,"gpus":1,"work":3602.3,"outcome":"failed","wait":6,"user":"0.0","tenant":"3.0","estimate":3600}`,
	}},
	{"tiresias", "job_id,num_gpu,submit_time,iterations,model_name,duration,interval\n0,8,30,606,vgg19,164,30\n", []string{
		`{"job":"0","submit":30,"gpus":8,"work":164,"model":"vgg19","units":606,"unit":"iterations"}`,
	}},
	{"muri", "job_id,num_gpu,submit_time,iterations,model_name,batch_size,duration,interval,iteration_time,resource_time_0,resource_time_1,resource_time_2,priority\n0,4,1456,4881447,bert,4,927475001,11174000,190,0.5,163,18,1\n", []string{
		`{"job":"0","submit":1.456,"gpus":4,"work":927475.001,"model":"bert","batch":4,"units":4881447,"unit":"iterations","priority":1,"hints":{"iteration":0.19,"stages":[0.0005,0.163,0.018],"qos":"opportunistic"}}`,
	}},
	{"gavel-msr", "Transformer (batch size 128)\tcd %s && python3\t-step\t1\t545\t58417.500000\t1\n", []string{
		`{"job":"0","submit":58417.5,"gpus":1,"work":100,"name":"Transformer (batch size 128)","model":"Transformer","batch":128,"units":545,"unit":"steps"}`,
	}},
	{"gavel", "A3C\tpython3\trl\t--max-steps\t0\t718\t1\t2\t1.5\t10.5\nResNet-18 (batch size 64)\tp\td\t-n\t1\t256\t8\t1\t-1.000000\t0\n", []string{
		`{"job":"1","gpus":8,"work":1,"name":"ResNet-18 (batch size 64)","model":"ResNet-18","batch":64,"units":256,"unit":"steps"}`,
		`{"job":"0","submit":10.5,"gpus":1,"work":100,"name":"A3C","model":"A3C","units":718,"unit":"steps","deadline":160.5,"hints":{"weight":2}}`,
	}},
	{"shockwave", "LM (batch size 10)\tpython3 main.py\tlm\t--steps\t1\t134583\t2\tgns\t1\t-1.000000\t1418\t3\n", []string{
		`{"job":"0","submit":3,"gpus":2,"work":1418,"course":[{"batch":10,"pace":1},{"from":678.173913043,"batch":20,"epoch":11,"pace":1.6461}],"name":"LM (batch size 10)","model":"LM","batch":10,"units":134583,"unit":"steps","hints":{"adapts":"gns","epochs":23,"modes":[[10,1],[20,1.6461]]}}`,
	}},
	{"pollux", "name,time,application,num_replicas,batch_size\ncifar10-0,53,cifar10,1,128\n", []string{
		`{"job":"cifar10-0","submit":53,"roles":[{"tasks":1,"min":1,"max":64,"gpu":1}],"work":3903.075,"name":"cifar10","model":"cifar10","batch":128,"units":39062,"unit":"iterations"}`,
	}},
	{"synergy", "0,alexnet,.5,100,2\n", []string{`{"job":"0","submit":0.5,"gpus":2,"work":60,"model":"alexnet","units":100,"unit":"iterations"}`}},
	{"elasticflow", "job_id,submit_time,iteration,model_name,ddl,batch_size,num_gpu,duration,best_effort\n0,0,77215,resnet50,4426,256,1,3930,0\n1,5,7,vgg16,44,256,2,30,1\n", []string{
		`{"job":"0","gpus":1,"work":3930,"model":"resnet50","batch":256,"units":77215,"unit":"iterations","deadline":4426}`,
		`{"job":"1","submit":5,"gpus":2,"work":30,"model":"vgg16","batch":256,"units":7,"unit":"iterations"}`,
	}},
	{"arena", "job_id,submission_time,num_iteration,model_name,deadline,batch_size,num_gpu,gpu_type\nf9,1591029055,10,wide_resnet__500M,1591029955.5,256,1,v100\n", []string{
		`{"job":"f9","types":"v100","gpus":1,"work":231,"model":"wide_resnet__500M","batch":256,"units":10,"unit":"iterations","deadline":900.5}`,
	}},
	{"chronus", "job_id,user,num_gpu,submit_time,iterations,model_name,duration,interval,expect_time_list,expect_value_list,best_effort,job_type\n" +
		"0,vc_e,1,10,5530,mob,96,5,159-189,10-8,0,soft\n1,vc_e,0,11,1,mob,2,5,159,10,0,strict\n2,vc_a,2,5,30,alexnet,30,17,14341,10,1,best\n", []string{
		`{"job":"2","submit":300,"gpus":2,"work":1800,"tenant":"vc_a","model":"alexnet","units":30,"unit":"iterations","hints":{"qos":"best"}}`,
		`{"job":"0","submit":600,"gpus":1,"work":5760,"tenant":"vc_e","model":"mob","units":5530,"unit":"iterations","deadline":10140,"soft":true,"hints":{"qos":"soft","worth":[[10140,10],[11940,8]]}}`,
	}},
	{"pal", "job_id,num_gpus,submit_time,duration,model,batch_size\n1,4,33,9447.5,alexnet,32\n", []string{
		`{"job":"1","submit":33,"gpus":4,"work":9447.5,"model":"alexnet","batch":32}`,
	}},
	{"pal-iterations", "name,model_name,time,num_iters,num_replicas\n1,res18,33,9447,2\n", []string{
		`{"job":"1","submit":33,"gpus":2,"work":9447,"model":"res18","units":9447,"unit":"iterations"}`,
	}},
	{"rubick", "name,submission_time,duration,application,num_gpus,num_cpus,bandwidth,exec_plan,steps,is_sla\nvit-0,0,3163.5,vit,2,16,0,zero-dp,37239,1\n", []string{
		`{"job":"vit-0","roles":[{"tasks":2,"gpu":1,"cpu":8}],"work":3163.5,"model":"vit","units":37239,"unit":"steps","hints":{"qos":"sla","plan":"zero-dp"}}`,
	}},
	{"ones", "time,model,task,epoch_size,patience,batch_size,lr,max_lr,target_acc,num_gpus\r\n39,bert,cola,8500,5,16,5.00E-06,2.00E-05,0.8,2\r\n", []string{
		`{"job":"0","submit":39,"gpus":2,"work":500,"model":"bert","dataset":"cola","batch":16,"units":51000,"unit":"samples"}`,
	}},
	{"titan", "name,submission_time,application,num_gpus,target_batch_size,target_lr,target_gradient_steps,target_metric\nvit@frgfm#imagenette-0,45,vit@frgfm#imagenette,1,48,4e-4,1,0.99\n", []string{
		`{"job":"vit@frgfm#imagenette-0","submit":45,"roles":[{"tasks":1,"min":1,"max":12,"gpu":1}],"work":305.808,"name":"vit-frgfm#imagenette","kind":"fine-tuning","model":"vit","backbone":"vit","dataset":"frgfm#imagenette","batch":48,"units":9,"unit":"epochs"}`,
	}},
	{"allox", "# 0\n1 7 1 3 queue0\nstage -1.0 32.0 14.0 97.0 1.0 2.0 50.0 1 -0.5 0.1\n0\n# 1\n1 8 1 5 queue1\nstage -1.0 32.0 1.0 90.0 1.0 2.0 26.0 2\n0\n", []string{
		`{"job":"7","submit":3,"roles":[{"tasks":1,"gpu":1,"mem":2147483648}],"work":50,"name":"0","tenant":"queue0","estimate":55,"hints":{"cpu_time":97,"cpu_estimate":48.5,"cpus":32,"cpu_mem":15032385536}}`,
		`{"job":"8","submit":5,"roles":[{"tasks":2,"gpu":1,"mem":2147483648}],"work":26,"name":"1","tenant":"queue1","estimate":26,"hints":{"cpu_time":90,"cpu_estimate":90,"cpus":32,"cpu_mem":1073741824}}`,
	}},
	{"mapa", "3,ring,17,11,1,inception-v3.sh\n", []string{
		`{"job":"0","submit":17,"gpus":3,"work":11,"name":"inception-v3.sh","model":"inception-v3","hints":{"pattern":"ring","sensitive":true}}`,
	}},
}

func TestFormats(t *testing.T) {
	for _, test := range samples {
		t.Run(test.format, func(t *testing.T) {
			entries, info := readText(t, test.text, trace.Options{})
			if info.Format != test.format {
				t.Errorf("taken for format %s", info.Format)
			}
			equalLines(t, entries, test.want...)
		})
	}
}

// TestNamesAreUnique checks that every format can be called for by its name,
// those of the published results among them.
func TestNamesAreUnique(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range trace.Formats() {
		for _, name := range append([]string{f.Name}, f.Aliases...) {
			if seen[name] {
				t.Errorf("two formats are called %s", name)
			}
			seen[name] = true
			if got, err := trace.Named(name, nil); err != nil || got.Name != f.Name {
				t.Errorf("%s: %v, %v", name, got.Name, err)
			}
		}
		if f.Title == "" || f.Decode == nil || f.Match == nil {
			t.Errorf("format %s is not complete", f.Name)
		}
	}
	for _, name := range []string{"allox", "gavel", "lucid", "mapa", "muri", "pai", "shockwave", "sia", "synergy", "tiresias"} {
		if !seen[name] { // as the published results name them
			t.Errorf("no format is called %s", name)
		}
	}
	if _, err := trace.Named("phily", nil); err == nil || !strings.Contains(err.Error(), "philly") {
		t.Errorf("the error does not name the formats: %v", err)
	}
}

// TestNamedFormat reads each made-up file when its format is named.
func TestNamedFormat(t *testing.T) {
	entries, info := readText(t, "0,alexnet,.5,100,2\n", trace.Options{Format: "synergy"})
	if info.Format != "synergy" || len(entries) != 1 {
		t.Errorf("%v %v", info, entries)
	}
	if _, err := trace.NewReader(strings.NewReader("x"), "f", trace.Options{Format: "nothing"}); err == nil {
		t.Error("a format that is not known is no error")
	}
	_, err := trace.NewReader(strings.NewReader("job_id,num_gpu\n1,1\n"), "f", trace.Options{Format: "tiresias"})
	if err == nil || !strings.Contains(err.Error(), `"submit_time"`) {
		t.Errorf("a missing column: %v", err)
	}
}

// TestExtraFirst checks that a format of the caller goes before one of the
// package with the same columns, and that two that cannot be told apart are an
// error that names both.
func TestExtraFirst(t *testing.T) {
	mine := func(name string) trace.Format {
		return trace.CSV(name, "mine", func(*trace.Input) *trace.Table {
			return &trace.Table{Columns: []trace.Column{trace.Col("gpus", trace.GPUs), trace.Col("duration", trace.Work(1))}}
		})
	}
	text := "gpus,duration\n1,1000000000\n"
	entries, info := readText(t, text, trace.Options{Extra: []trace.Format{mine("nano")}})
	if info.Format != "nano" {
		t.Errorf("taken for format %s", info.Format)
	}
	equalLines(t, entries, `{"job":"0","gpus":1,"work":1}`)
	_, err := trace.NewReader(strings.NewReader(text), "x", trace.Options{Extra: []trace.Format{mine("nano"), mine("pico")}})
	if err == nil || !strings.Contains(err.Error(), "nano or pico") {
		t.Errorf("two formats: %v", err)
	}
}
