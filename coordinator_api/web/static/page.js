// The script of every page. Some pages load further modules.
import { startCountdowns } from "./countdown.js";
import { startDialogs } from "./dialogs.js";
import { startLive } from "./live.js";

startCountdowns();
startDialogs();
startLive();
