// What every page does. A view adds modules of its own beside this one.
import { startCountdowns } from "./countdown.js";
import { startDialogs } from "./dialogs.js";
import { startLive } from "./live.js";

startCountdowns();
startDialogs();
startLive();
